# The versions are those of requirements.lock, checked by hash; it was made for this Python.
FROM python:3.11-slim AS build
WORKDIR /src
RUN ["python", "-m", "venv", "/opt/posenc"]
COPY requirements.lock ./
RUN ["/opt/posenc/bin/pip", "install", "--no-cache-dir", "--require-hashes", "-r", "requirements.lock"]
COPY pyproject.toml setup.py README.md LICENSE ./
COPY openapi ./openapi
COPY service ./service
RUN ["/opt/posenc/bin/pip", "install", "--no-cache-dir", "--no-deps", "--no-build-isolation", "."]
# Only what runs goes into the image: the tools that built it stay behind.
RUN ["/opt/posenc/bin/pip", "uninstall", "--yes", "setuptools", "pip"]

FROM python:3.11-slim
COPY --from=build /opt/posenc /opt/posenc
# The bytecode was compiled when the packages were installed; at run time nothing is written anywhere.
ENV PATH=/opt/posenc/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    POSENC_HOST=0.0.0.0
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["posenc", "healthcheck"]
ENTRYPOINT ["posenc"]
CMD ["serve"]
