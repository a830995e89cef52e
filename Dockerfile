# One image for the API, the refits and the migrations: the command says which.
FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements/serve.txt requirements/
RUN python -m venv /opt/coldcast \
    && /opt/coldcast/bin/pip install --no-cache-dir --require-hashes -r requirements/serve.txt
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY agent agent
COPY migrations migrations
RUN /opt/coldcast/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home coldcast
COPY --from=build /opt/coldcast /opt/coldcast
ENV PATH=/opt/coldcast/bin:$PATH PYTHONUNBUFFERED=1 COLDCAST_HOST=0.0.0.0
USER coldcast
EXPOSE 8000
ENTRYPOINT ["coldcast"]
CMD ["serve", "--api-only"]
