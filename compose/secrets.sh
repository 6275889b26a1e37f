#!/bin/sh
# Makes the folder of secrets that compose.yaml wants: compose/secrets.sh FOLDER. Nothing is overwritten.
#
# `superuser`, `coordinator`, `operator` hold a password each, and NAME.url the address of the Master DB with it (JOBYARD_DATABASE_URL_FILE). The folder is for its
# owner alone; the files can be read by all, since in the containers users without rights read them.
set -eu
folder=${1:?usage: compose/secrets.sh FOLDER}
umask 022
mkdir -p "$folder"
chmod 700 "$folder"
for name in superuser coordinator operator; do
  if [ ! -e "$folder/$name" ]; then
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n' > "$folder/$name"
  fi
  if [ ! -e "$folder/$name.url" ]; then
    role=$name
    if [ $name = superuser ]; then role=postgres; fi
    echo "postgresql://$role:$(cat "$folder/$name")@postgres:5432/jobyard" > "$folder/$name.url"
  fi
done
echo "now: export YARD_SECRETS=$folder"
