"""Arrays to bytes, and bytes to arrays. Knows no scheme and no HTTP; `FORMATS` is every way to write."""

from collections.abc import Mapping
from types import MappingProxyType

from service.formats.csv_text import CSV
from service.formats.format import Format
from service.formats.json_text import JSON
from service.formats.npy import NPY
from service.formats.npz import NPZ
from service.formats.pictures import PNG, SVG
from service.formats.raw import BIN
from service.formats.safetensors import SAFETENSORS

FORMATS: Mapping[str, Format] = MappingProxyType(
    {each.extension: each for each in (JSON, NPY, NPZ, SAFETENSORS, BIN, CSV, PNG, SVG)}
)
