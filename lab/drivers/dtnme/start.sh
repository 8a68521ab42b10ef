#!/bin/sh
# Starts DTNME: with a new store the first time, and with what it kept the next times.
[ -e store/made ] || new=-t
mkdir -p store/db store/bundles arrived
touch store/made
exec dtnme $new -c node.cfg -l err -o dtnme.log
