"""The formats that hold numbers, and those that show them."""

from service.formats import FORMATS
from service.formats.pictures import Picture

PICTURES = [name for name, each in FORMATS.items() if isinstance(each, Picture)]
HOLDING = [name for name in FORMATS if name not in PICTURES]
