# azclient, which searches here and asks the server's evaluators:
#   docker build -f deploy/docker/client.Dockerfile -t azselfplay-client:0.1.0 .
# A client with a network of its own (--device cpu, cuda:N) needs PyTorch: run azclient from the other image.
ARG PYTHON=3.11
FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/azselfplay \
    && PIP_NO_CACHE_DIR=1 deploy/install.sh /opt/azselfplay/bin/python client

FROM python:${PYTHON}-slim-bookworm
RUN groupadd --gid 10001 azselfplay \
    && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /var/lib/azselfplay azselfplay \
    && install --directory --owner 10001 --group 10001 /spool /keys /var/lib/azselfplay /var/cache/azselfplay
COPY --from=build /opt/azselfplay /opt/azselfplay
ENV PATH=/opt/azselfplay/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    AZ_JIT_CACHE=/var/cache/azselfplay/jit
USER 10001:10001
WORKDIR /var/lib/azselfplay
VOLUME ["/spool", "/var/cache/azselfplay"]
STOPSIGNAL SIGTERM
CMD ["azclient", "--help"]
