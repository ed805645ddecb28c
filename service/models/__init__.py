"""What a model's `config.json` says about positions: which schemes of the engine, with which parameters, where.

`resolve` reads a configuration as the code of the model does and answers with a `Plan`; it knows no HTTP.
"""

from service.models.context import Options
from service.models.plan import Address, Plan, Use, Value
from service.models.resolve import resolve

__all__ = ["Address", "Options", "Plan", "Use", "Value", "resolve"]
