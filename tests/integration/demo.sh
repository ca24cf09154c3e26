#!/usr/bin/env bash
# demo.sh BUILD: start the daemon built in BUILD with the example sessions in a
# throw-away directory and show what it does. Every line after a $ is a command
# that is really run; what it prints stands below it.
set -euo pipefail

build=$1
eventd=$build/daemon/eventd
export PATH=$build/client/ctl:$PATH
dir=$(mktemp -d /tmp/eventd.XXXXXX)
export EVENTD_SOCKET=$dir/eventd.sock
daemon=
client=

finish() {
	[ -z "$client" ] || kill "$client" 2>/dev/null || true
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	wait
	rm -rf "$dir"
}
trap finish EXIT

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
else
	bold='' dim='' plain=''
fi

tell() {
	printf '\n%s%s%s\n' "$bold" "$*" "$plain"
}

# show CMD...: the command as one would type it, then what it prints.
show() {
	local words

	words=$(printf ' %s' "${@@Q}" | sed "s/'\\([a-zA-Z0-9_./=-]*\\)'/\\1/g")
	printf '  %s$%s%s%s\n' "$dim" "$plain$bold" "$words" "$plain"
	"$@" 2>&1 | awk '{ print "  " $0 }'
}

# wait_for CMD...: until it succeeds, ten seconds at most.
wait_for() {
	local i

	for ((i = 0; i < 200; i++)); do
		if "$@" >/dev/null 2>&1; then
			return
		fi
		sleep 0.05
	done
	printf 'demo: this never came true: %s\n' "$*" >&2
	cat "$dir/log" >&2
	exit 1
}

is_up() {
	eventctl status "$1" --json | grep -q '"state":"up"'
}

cp -r "$build/docs/examples/." "$dir"
cat >"$dir/eventd.conf" <<END
[Daemon]
Socket=$EVENTD_SOCKET
[Store]
Path=$dir/store
END

start() {
	"$eventd" --config "$dir/eventd.conf" 2>>"$dir/log" &
	daemon=$!
	wait_for eventctl ping
}

tell "eventd starts, in the foreground, with the sessions of docs/examples."
start
show eventctl list

tell "A call goes to a name and waits for the answer of its handler."
show eventctl call greeter greet World

tell "A post is acknowledged once the event is in the mailbox of its session."
show eventctl post thumbs add cat.jpg
show eventctl post thumbs add dog.png --wait handled
show eventctl call thumbs status

tell "A client takes an alias; events for it are printed as they come."
eventctl --no-legend bind kitchen --count 3 >"$dir/kitchen" 2>&1 &
client=$!
wait_for eventctl status kitchen
show eventctl post kitchen light on
show eventctl post kitchen radio "the news"

tell "A delayed post is due later; until then its timer can be seen."
show eventctl delay kitchen tea "it has drawn" --in 1s
show eventctl timers
wait "$client"
client=
printf '  %swhat the client in the kitchen saw:%s\n' "$dim" "$plain"
sed 's/^/  /' "$dir/kitchen"

tell "Two native sessions play ping and pong, a million events. (This build
checks itself; ./dev bench measures one that does not.)"
show eventctl call ping run 500000

tell "What do events cost? The profile says so, the dearest first."
show eventctl profile --on
show eventctl call ping run 100000
show eventctl profile

tell "A session that fails is its own failure; its supervisor starts it again."
show eventctl post thumbs/worker1 make "7 bad.crash"
wait_for grep -q session.restarts "$dir/log"
grep -m 1 session.restarts "$dir/log" |
	sed -e 's/ stack traceback.*/.../' -e 's/^/  /'
wait_for is_up thumbs/worker1
show eventctl status thumbs/worker1

tell "What is acknowledged as durable outlives kill -9."
show cat "$dir/sessions.d/outbox.conf"
show eventctl post outbox invoice "number 4711" --wait durable
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
start
grep mailbox.restored "$dir/log" | sed 's/^/  /'
show eventctl bind outbox --count 1

tell "An error says what is wrong and what to do."
show eventctl post kitchn light on || true

tell "SIGTERM: what is queued is handled, then it ends."
kill "$daemon"
wait "$daemon"
daemon=
tail -n 2 "$dir/log" | sed 's/^/  /'
