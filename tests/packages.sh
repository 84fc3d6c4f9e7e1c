#!/bin/sh
# Installs what some tests need beside Python packages, where that can be done without asking: on Debian and its kin, as
# root. Elsewhere it says what is missing; the tests that need it are skipped, each with its reason.
# SUDARE_PACKAGES=no leaves the machine as it is. SUDARE_ROOT stands before paths of the machine (for the tests of this).
missing=""
ls "$SUDARE_ROOT"/usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null ||
    missing="$missing postgresql"
"${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | grep -q 'version "\(1[7-9]\|[2-9][0-9]\)' ||
    missing="$missing default-jre-headless"
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || missing="$missing chromium"
[ -n "$missing" ] || exit 0

if [ "$SUDARE_PACKAGES" = no ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed:$missing; the tests that need them will be skipped"
    exit 0
fi
# The tests start a server of their own: no other one is to be made and started by the package.
if [ ! -e "$SUDARE_ROOT/etc/postgresql-common/createcluster.conf" ]; then
    mkdir -p "$SUDARE_ROOT/etc/postgresql-common"
    echo "create_main_cluster = false" >"$SUDARE_ROOT/etc/postgresql-common/createcluster.conf"
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || echo "the list of packages could not be brought up to date; the one that is there is used"
for package in $missing; do
    apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$package" >/dev/null ||
        echo "$package could not be installed; the tests that need it will be skipped"
done
exit 0
