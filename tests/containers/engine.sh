#!/usr/bin/env bash
# Makes ready what the containers suite needs: a Docker engine, compose, and the images, and writes their names to .jobyard/containers.env
# (or to .jobyard/containers.missing what is missing, and ends with status 3).
#
#   tests/containers/engine.sh                   installs the engine where there is none (Debian or Ubuntu, as root), and starts it
#   tests/containers/engine.sh --only-if-there   installs and starts nothing
#
# Images: the public ones, or those that YARD_POSTGRES_IMAGE, YARD_KAFKA_IMAGE and YARD_PYTHON_IMAGE name. Where no registry can be reached, stand-ins with the
# same interface are made from Debian's packages and Kafka's locked jars (stand_ins/). The mirror is the one that apt uses here. The second run takes a second.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=$root/.venv/bin/python
names=$root/.jobyard/containers.env
reason=$root/.jobyard/containers.missing
cautious=false
if [ "${1:-}" = --only-if-there ]; then cautious=true; shift; fi
[ $# -eq 0 ] || { echo "usage: engine.sh [--only-if-there]" >&2; exit 2; }

say() { echo "containers: $*"; }
missing() { # what is missing, and what helps
  rm -f "$names"
  echo "$1: $2" >"$reason"
  echo "containers: $1: $2" >&2
  exit 3
}
may_install() { [ $cautious = false ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
install() { # install PACKAGE…: by apt, quietly, unless it fails
  say "installing $*"
  local log
  log=$(mktemp)
  if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    missing "apt-get cannot install $*" "see above"
  fi
  rm -f "$log"
}
answers() { timeout 20 docker info >/dev/null 2>&1; }
compose_there() { docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null; }
has() { docker image inspect "$1" >/dev/null 2>&1; }
mkdir -p "$root/.jobyard"
rm -f "$reason"

# --- engine
if ! answers; then
  may_install || missing "no Docker engine answers" "start one that $(id -un) may use, or, on Debian or Ubuntu, run tests/containers/engine.sh as root"
  wanted=()
  command -v dockerd >/dev/null || wanted+=(docker.io iptables)
  compose_there || wanted+=(docker-compose)
  command -v debootstrap >/dev/null || wanted+=(debootstrap)
  [ ${#wanted[@]} -eq 0 ] || install "${wanted[@]}"
  if ! answers; then
    say "starting dockerd"
    setsid nohup dockerd >"$root/.jobyard/dockerd.log" 2>&1 </dev/null &
    for _ in $(seq 120); do
      if answers; then break; fi
      sleep 0.5
    done
    answers || { tail -n 30 "$root/.jobyard/dockerd.log" >&2; missing "dockerd does not come up" "see above"; }
  fi
fi
if ! compose_there; then
  may_install || missing "neither 'docker compose' nor docker-compose is there" "install Docker's compose plugin"
  install docker-compose
fi

# --- images: name of each variable, and the image that compose.yaml has by default
default() { sed -nE "s/.*\\$\\{$1:-([^}]*)\\}.*/\\1/p" "$root/compose.yaml" | head -n 1; }
can_be_had() { # here, or in a registry that answers at once
  has "$1" || timeout 20 docker manifest inspect "$1" >/dev/null 2>&1
}
postgres=${YARD_POSTGRES_IMAGE:-$(default YARD_POSTGRES_IMAGE)}
kafka=${YARD_KAFKA_IMAGE:-$(default YARD_KAFKA_IMAGE)}
base=${YARD_PYTHON_IMAGE:-$(default YARD_PYTHON_IMAGE)}
build=$base
if can_be_had "$postgres" && can_be_had "$kafka" && can_be_had "$base"; then
  for image in "$postgres" "$kafka" "$base"; do
    has "$image" || { say "pulling $image"; docker pull --quiet "$image"; }
  done
else
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  recipe=$(cd "$root" && cat tests/containers/stand_ins/*/* jobyard/embedded/kafka.lock | sha256sum | cut -c1-12)
  debian=jobyard-stand-in/debian:$suite
  postgres=jobyard-stand-in/postgres:$recipe kafka=jobyard-stand-in/kafka:$recipe
  base=jobyard-stand-in/python:$recipe build=jobyard-stand-in/python-build:$recipe
  if ! { has "$postgres" && has "$kafka" && has "$base" && has "$build"; }; then
    if [ "$(id -u)" != 0 ] || [ -z "$suite" ] || ! command -v apt-get >/dev/null; then
      missing "the images cannot be pulled" "stand-ins are made on Debian or Ubuntu, as root"
    fi
    if ! command -v debootstrap >/dev/null; then
      may_install || missing "the images cannot be pulled, and debootstrap, which makes stand-ins, is not there" "install it"
      install debootstrap
    fi
    say "no registry has the public images: making stand-ins from Debian's packages ($suite), once"
    work=$(mktemp -d /var/tmp/jobyard-stand-ins.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    sources=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT) $(CREATED_BY)' | awk -v suite="$suite" \
      '$NF == "Packages" && ($2 == suite || $2 ~ "^" suite "-(updates|security)$") { print "deb", $1, $2, $3 }')
    mirror=$(awk -v suite="$suite" '$3 == suite { print $2; exit }' <<<"$sources")
    [ -n "$mirror" ] || missing "apt names no mirror of $suite" "add one to apt's sources"
    if ! has "$debian"; then
      debootstrap --variant=minbase "$suite" "$work/root" "$mirror" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; missing "debootstrap failed" "see above"; }
      echo "$sources" >"$work/root/etc/apt/sources.list"
      apt-config dump | grep -E '^Acquire::(Check-|https?::)' >"$work/root/etc/apt/apt.conf.d/50here" || true
      echo force-unsafe-io >"$work/root/etc/dpkg/dpkg.cfg.d/unsafe-io"
      printf 'path-exclude=/usr/share/%s/*\n' doc man locale >"$work/root/etc/dpkg/dpkg.cfg.d/small"
      rm -rf "$work/root"/var/cache/apt/* "$work/root"/var/lib/apt/lists/* "$work/root"/usr/share/{doc,man,locale}/*
      tar -C "$work/root" -c . | docker import - "$debian" >/dev/null
    fi
    cp -r "$here/stand_ins" "$work/stand_ins"
    (
      cd "$work/stand_ins"
      "$python" -c 'import shutil, sys
from jobyard.embedded.jars import Jars, default_cache
jars = Jars(default_cache(), tell=print)
jars.ready()
shutil.copytree(jars.folder, sys.argv[1])' kafka/jars
      # this machine's way to the package index; its certificates are copied beside
      { echo "[global]"; "$python" -m pip config list | sed -nE "s/^[^=]*\\.([a-z-]+)='(.*)'\$/\\1 = \\2/p" | grep -vE '^(cert|find-links) ' | sort -u -t= -k1,1; } >python/pip.conf
      cp "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" python/ca-certificates.crt 2>/dev/null || : >python/ca-certificates.crt
      if [ -s python/ca-certificates.crt ]; then echo "cert = /etc/ssl/certs/ca-certificates.crt" >>python/pip.conf; fi
    )
    make_image() { # make_image FOLDER TAG OPTION…
      local folder=$1 tag=$2
      shift 2
      if ! DOCKER_BUILDKIT=0 docker build --network=host --build-arg "BASE=$debian" --tag "$tag" "$@" "$work/stand_ins/$folder" >"$work/$folder.log" 2>&1; then
        tail -n 30 "$work/$folder.log" >&2
        return 1
      fi
    }
    make_image postgres "$postgres" & first=$!
    make_image kafka "$kafka" & second=$!
    failed=false
    { make_image python "$base" --target runtime && make_image python "$build" --target build; } || failed=true
    wait $first || failed=true
    wait $second || failed=true
    [ $failed = false ] || missing "a stand-in cannot be built" "see above"
  fi
fi
printf '%s\n' "YARD_POSTGRES_IMAGE=$postgres" "YARD_KAFKA_IMAGE=$kafka" "YARD_PYTHON_IMAGE=$base" "YARD_BUILD_IMAGE=$build" >"$names"
say "engine $(docker version --format '{{.Server.Version}}'), $postgres, $kafka, $base"
