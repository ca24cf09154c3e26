#!/usr/bin/env bash
# install_test.sh BUILD SOURCE: installs the built tree into a directory and
# looks at it as a package's user would: everything in its place, units that
# name the right programs, and a program outside that builds against libevd.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=lib.sh
. "$here/lib.sh"
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

DESTDIR=$root cmake --install "$build" --prefix /usr >"$work/log" 2>&1 ||
	{ cat "$work/log"; exit 1; }

lib=$(dirname "$(find "$root" -name 'libevd.so')")
libdir=${lib#"$root/"} # lib or lib/MULTIARCH below usr

# placed PATH...: each, a pattern below the root, names a file
placed() {
	local path

	for path in "$@"; do
		check "installed: $path" compgen -G "$root/$path"
	done
}

placed usr/sbin/eventd usr/bin/eventctl \
	"$libdir"/{'libevd.so.?',pkgconfig/libevd.pc} \
	usr/include/eventd/{client,plugin,status,version}.h \
	usr/share/eventd/eventd.proto \
	usr/lib/systemd/{system,user}/eventd.{service,socket} \
	usr/lib/{sysusers,tmpfiles}.d/eventd.conf \
	usr/share/doc/eventd/LICENSE \
	usr/share/bash-completion/completions/eventctl \
	usr/share/zsh/vendor-completions/_eventctl \
	usr/share/fish/vendor_completions.d/eventctl.fish \
	usr/share/man/man1/eventctl.1 usr/share/man/man8/eventd.8 \
	usr/share/man/man5/eventd.{conf,session}.5 usr/share/man/man3/libevd.3 \
	"$libdir"/eventd/plugins/pingpong.so \
	usr/share/doc/eventd/examples/{lua/greeter.lua,sessions.d/greeter.conf}
for unit in system user; do
	check "$unit unit starts the installed daemon" grep -q \
		'^ExecStart=/usr/sbin/eventd ' \
		"$root/usr/lib/systemd/$unit/eventd.service"
	check_not "$unit unit has no placeholder left" grep -qE '@[a-z]+@' \
		"$root/usr/lib/systemd/$unit/eventd.service"
done
check_not "nothing installed names the build or source tree" \
	grep -rIlF -e "$build" -e "$source" "$root"

DESTDIR=$work/local cmake --install "$build" --prefix /usr/local \
	>"$work/log" 2>&1
check "another prefix reaches the unit" grep -q \
	'^ExecStart=/usr/local/sbin/eventd ' \
	"$work/local/usr/local/lib/systemd/system/eventd.service"

# A program outside, built against what was installed below $root alone.
mkdir "$work/use"
cat >"$work/use/use.c" <<'END'
#include <eventd/client.h>
#include <stdio.h>

int
main(void)
{
	struct evd *c = evd_new();

	puts(EVD_VERSION);
	evd_free(c);
	return c ? 0 : 1;
}
END
cat >"$work/use/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(use LANGUAGES C)
find_package(evd REQUIRED)
add_executable(use use.c)
target_link_libraries(use PRIVATE evd::evd)
END
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$lib/pkgconfig
by_pkg_config() {
	local words

	read -ra words <<<"$(pkg-config --cflags --libs libevd)"
	cc -o "$work/use/by-pkg" "$work/use/use.c" "${words[@]}"
	LD_LIBRARY_PATH=$lib "$work/use/by-pkg"
}

by_cmake() {
	cmake -S "$work/use" -B "$work/use/b" -G Ninja \
		-DCMAKE_PREFIX_PATH="$root/usr" &&
		cmake --build "$work/use/b" &&
		LD_LIBRARY_PATH=$lib "$work/use/b/use"
}

check "a program builds by pkg-config and runs" by_pkg_config
check "a program builds by find_package and runs" by_cmake
said=$(LD_LIBRARY_PATH=$lib "$work/use/by-pkg" 2>&1)
check_is "pkg-config and the header agree about the version" \
	"$(pkg-config --modversion libevd)" "$said"
finish
