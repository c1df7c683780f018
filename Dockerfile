# The image of the proxy and the controller: `penstock proxy -c FILE` or `penstock controller -c FILE`.
# The audit jobs run in Spark's own image (deploy/spark).

# 3.11 to 3.13: docker build --build-arg PYTHON=3.13
ARG PYTHON=3.11
FROM python:${PYTHON}-slim AS build
WORKDIR /src
RUN python -m venv /opt/penstock
COPY deploy/requirements.lock deploy/
RUN /opt/penstock/bin/pip install --no-cache-dir --require-hashes -r deploy/requirements.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY proxy proxy
COPY forwarding forwarding
COPY spark_audit spark_audit
# setuptools is in the lock file. Only the project itself is built, and setuptools is not needed afterwards.
RUN /opt/penstock/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/penstock/bin/pip uninstall --yes setuptools pip

FROM python:${PYTHON}-slim
# Written by `make cut`.
ARG VERSION=0.10.0-dev.0
LABEL org.opencontainers.image.title="Penstock" \
    org.opencontainers.image.description="A gate in front of Kafka brokers, and its controller" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}"
# A fixed user id, so that a volume or a Secret can belong to this user (fsGroup: 10001).
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin penstock \
    && install --directory --owner=penstock --group=penstock /var/lib/penstock
COPY --from=build /opt/penstock /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PENSTOCK_HTTP=http://127.0.0.1:9190
# Bytecode of Python's own modules: its image has none, and the user below could not write it, so that each start
# would compile them anew. pip has compiled the rest.
RUN python -c "import proxy.commands.run_proxy, forwarding.app"
USER 10001
# The audit spool has to outlive the container, otherwise records that are not yet shipped are lost with it.
VOLUME /var/lib/penstock
EXPOSE 9093 9094 9190
# Checks /livez, not /readyz: a proxy that is still loading the metadata log must not be restarted. /livez needs no
# credential. The certificate is not checked, because its name is not that of the loopback interface.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, ssl, urllib.request; urllib.request.urlopen(os.environ['PENSTOCK_HTTP'] + '/livez', timeout=2, context=ssl._create_unverified_context())"]
# SIGTERM drains the process: accepted requests get their responses, and the audit spool is shipped before the process ends.
STOPSIGNAL SIGTERM
ENTRYPOINT ["penstock"]
CMD ["proxy", "-c", "/etc/penstock/proxy.yaml"]
