# The image of Jobyard: `docker build .`. Your own application goes on top of it: FROM jobyard, then COPY your modules to /srv.
# Both images can be others, with the same Python in both: `--build-arg PYTHON_IMAGE=…`, and BUILD_IMAGE for what only the build needs.
ARG PYTHON_IMAGE=python:3.13-slim
ARG BUILD_IMAGE=

FROM ${BUILD_IMAGE:-$PYTHON_IMAGE} AS build
WORKDIR /src
RUN python3 -m venv --without-pip /opt/jobyard
# what Jobyard needs is a layer of its own: it changes more seldom than the code
COPY pyproject.toml constraints.txt ./
RUN python3 -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > requirements.txt \
 && python3 -m pip --python /opt/jobyard/bin/python install --no-cache-dir --constraint constraints.txt --requirement requirements.txt
COPY . .
RUN python3 -m pip --python /opt/jobyard/bin/python install --no-cache-dir --no-deps .

FROM ${PYTHON_IMAGE} AS runtime
COPY --from=build /opt/jobyard /opt/jobyard
ENV PATH=/opt/jobyard/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /srv
USER 10001:10001
ENTRYPOINT ["jobyard"]

# what compose.yaml runs unless YARD_IMAGE names another image
FROM runtime AS example
COPY examples examples

FROM runtime AS jobyard
