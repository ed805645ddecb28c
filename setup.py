"""What pyproject.toml cannot say: openapi/, beside the package in the source tree, is inside it in a wheel."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["service*"]), "service.web", "service.openapi"],
    package_dir={"service.openapi": "openapi"},
    package_data={
        "service": ["py.typed", "*.pyi"],
        "service.web": ["*", "explorer/*", "swagger-ui/*"],
        "service.models.facts": ["*.json"],
        "service.openapi": ["openapi.json"],
    },
)
