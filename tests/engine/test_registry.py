"""The records: the tuple holds every file, and every record is complete and true."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import service.engine
from service.engine import SCHEMES, by_key
from service.engine.scheme import Example, Scheme, Usage, whole
from tests.engine.answers import Array

FOLDERS = {name: name for name in ("analyses", "biases", "encodings")} | {"operations": "apply"}
Records = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "/".join(scheme.key))
ROUNDING = {
    "analyses": {"faithful"},
    "encodings": {"correct"},
    "biases": {"correct", "faithful", "integer"},
    "apply": {"faithful"},
}
