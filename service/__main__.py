"""`python -m service` is the `posenc` command."""

import sys

from service.command import main

if __name__ == "__main__":
    sys.exit(main())
