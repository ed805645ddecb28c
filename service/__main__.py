"""`python -m service` is the `posenc` command."""

import sys

from service.command import main

sys.exit(main())
