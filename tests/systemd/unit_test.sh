#!/usr/bin/env bash
# unit_test.sh BUILD: installs the built tree beside a real systemd and holds
# the units to what eventd(8) says of them. As root, else skipped (77).
set -uo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=lib.sh
. "$here/lib.sh"

socket=/run/eventd/eventd.sock
conf=/etc/eventd

skip() {
	echo "skipped: $1"
	exit 77
}

if [ "${1:-}" != --inside ]; then
	[ "$(id -u)" = 0 ] || skip "needs root"
	[ -x /usr/lib/systemd/systemd ] || skip "needs systemd"
	unshare --mount --pid --fork --mount-proc true 2>/dev/null ||
		skip "namespaces are not permitted here"
	exec "$here/with-systemd" "$(readlink -f "$0")" --inside "$1"
fi
build=$2

# ---- what the tests share ----

prop() {
	systemctl show --value -p "$2" "$1"
}

main_pid() {
	prop eventd.service MainPID
}

is() {
	[ "$(prop "$1" "$2")" = "$3" ]
}

call() {
	eventctl --timeout 5s call "$@"
}

answers() {
	[ "$(call "$1" hello world)" = "hello world from $1" ]
}

# as_user USER GROUP CMD...
as_user() {
	setpriv --reuid "$1" --regid "$2" --clear-groups "${@:3}"
}

journal() {
	journalctl --sync
	journalctl -u eventd.service --no-pager "$@"
}

# greeter ALIAS [KEY=VALUE...]: a session file.
greeter() {
	printf '%s\n' '[Session]' "Alias=$1" Kind=lua \
		"Script=$conf/scripts/greeter.lua" "${@:2}" \
		>"$conf/sessions.d/$1.conf"
}

# restart_with KEY=VALUE...: the service with a drop-in of these.
restart_with() {
	mkdir -p /run/systemd/system/eventd.service.d
	printf '%s\n' '[Service]' "$@" \
		>/run/systemd/system/eventd.service.d/test.conf
	systemctl daemon-reload
	systemctl restart eventd.service
}

restart_plain() {
	rm -rf /run/systemd/system/eventd.service.d
	systemctl daemon-reload
	systemctl restart eventd.service
}

# ---- the tests, in order: each leaves the service up and well ----

set_up() {
	cmake --install "$build" --prefix /usr >/tmp/install.log 2>&1 ||
		{ cat /tmp/install.log; exit 1; }
	ldconfig
	mkdir -p "$conf/sessions.d" "$conf/scripts"
	cat >"$conf/scripts/greeter.lua" <<-'END'
		return {
			hello = function(data)
				eventd.reply("hello " .. data .. " from " ..
					eventd.alias())
			end,
			fail = function() error("on purpose") end,
			spin = function() while true do end end,
		}
	END
	greeter greeter
	greeter pooled Executor=narrow
	printf '%s\n' '[Pool narrow]' Threads=2 CPUAffinity=0 \
		>"$conf/eventd.conf"
	printf 'u tester - "test"\n' >/usr/lib/sysusers.d/tester.conf
	printf 'u member - "test"\nm member eventd\n' \
		>>/usr/lib/sysusers.d/tester.conf
	check "systemd-sysusers makes the user" systemd-sysusers
	check "the user is there" getent passwd eventd
	check "systemd-tmpfiles makes the directory" \
		systemd-tmpfiles --create eventd.conf
	check_is "/run/eventd is the daemon's" "eventd:eventd 755" \
		"$(stat -c '%U:%G %a' /run/eventd)"
	systemctl daemon-reload
	systemctl log-target journal
}

test_units_verify() {
	local unit

	for unit in system/eventd.service system/eventd.socket; do
		check_is "systemd-analyze verify is silent about $unit" "" \
			"$(systemd-analyze verify --man=no \
				"/usr/lib/systemd/$unit" 2>&1)"
	done
	check "systemd-analyze security is at most 1.2" \
		systemd-analyze security --offline=true --threshold=12 \
		/usr/lib/systemd/system/eventd.service
}

test_first_post_starts_it() {
	check "the socket starts" systemctl start eventd.socket
	check_is "the socket is for the group" "eventd:eventd 660" \
		"$(stat -c '%U:%G %a' "$socket")"
	check_is "the daemon does not run yet" inactive \
		"$(systemctl is-active eventd.service)"
	check "the first post is accepted" eventctl post greeter hello first
	check_is "it has started the daemon" active \
		"$(systemctl is-active eventd.service)"
	check_is "the session answers" "hello world from greeter" \
		"$(call greeter hello world)"
	check_like "STATUS= counts sessions" '[0-9]+ session' \
		"$(prop eventd.service StatusText)"
	check_is "it runs as its user" eventd \
		"$(ps -o user= -p "$(main_pid)")"
	check_is "its state directory is private" "eventd:eventd 750" \
		"$(stat -c '%U:%G %a' /var/lib/eventd)"
}

test_socket_rights() {
	check "a member of the group is served" \
		as_user member eventd eventctl post greeter hello x
	as_user tester tester eventctl post greeter hello x 2>/dev/null
	check_is "another user is denied" 77 $?
}

test_confinement() {
	local status

	status=/proc/$(main_pid)/status
	check_is "no capabilities" 0000000000000000 \
		"$(sed -n 's/^CapBnd:\t//p' "$status")"
	check_is "no new privileges" 1 \
		"$(sed -n 's/^NoNewPrivs:\t//p' "$status")"
	check_is "system calls are filtered" 2 \
		"$(sed -n 's/^Seccomp:\t//p' "$status")"
	check "a pool has the CPUs that it asks for" answers pooled
	check_is "nothing was killed or refused at start" "" \
		"$(journal -q -g 'SECCOMP|not permitted|pool.cpus')"
}

test_readiness() {
	local pid

	pid=$(main_pid)
	check "restart returns" systemctl restart eventd.service
	check_not "it is another process" [ "$pid" = "$(main_pid)" ]
	# Type=notify: when restart returns, sessions answer
	check "sessions answer at once" answers greeter
	check_is "systemd waits for READY=1" notify \
		"$(prop eventd.service Type)"
}

test_reload() {
	local pid

	pid=$(main_pid)
	greeter second
	check_not "a new file waits for a reload" answers second
	check "reload succeeds" systemctl reload eventd.service
	check "the new session answers" answers second
	check "the old one too" answers greeter
	check_is "it is the same process" "$pid" "$(main_pid)"
	printf '[Session]\nAlias=third\nKind=nonsense\n' \
		>"$conf/sessions.d/third.conf"
	check_not "reload of a wrong file fails" \
		systemctl reload eventd.service
	check_is "the service stays up" active \
		"$(systemctl is-active eventd.service)"
	check "the old configuration stays" answers second
	check_like "the journal has file and line" 'third\.conf:3' \
		"$(journal -o cat)"
	rm "$conf/sessions.d/third.conf" "$conf/sessions.d/second.conf"
	check "reload of the mended files succeeds" \
		systemctl reload eventd.service
	check_not "the removed session is gone" answers second
	check "SIGHUP reloads as well" \
		systemctl kill --kill-whom=main -s HUP eventd.service
	check "and it goes on" answers greeter
}

test_watchdog() {
	local pid

	restart_with WatchdogSec=2s
	pid=$(main_pid)
	# two intervals of a healthy daemon
	within 4 false
	check_is "a healthy daemon is left alone" "$pid" "$(main_pid)"
	kill -STOP "$pid"
	check "a stopped daemon is killed and replaced" \
		within 20 restarted_after "$pid"
	check "sessions answer again" within 10 answers greeter
	check_like "for the watchdog's reason" 'Watchdog timeout' \
		"$(journal -o cat)"
	restart_plain
}

# A handler that never returns stops its loop, and so the pings.
test_watchdog_of_loops() {
	local pid

	greeter spinner HandlerTimeout=1h
	restart_with WatchdogSec=2s
	pid=$(main_pid)
	eventctl post spinner spin >/dev/null 2>&1 &
	check "the daemon is killed and replaced" \
		within 20 restarted_after "$pid"
	check_like "it has told why before" 'loop\.stuck' "$(journal -o cat)"
	check "sessions answer again" within 10 answers greeter
	wait
	rm "$conf/sessions.d/spinner.conf"
	restart_plain
}

restarted_after() {
	local pid

	pid=$(main_pid)
	[ "$pid" != 0 ] && [ "$pid" != "$1" ] &&
		is eventd.service ActiveState active
}

test_kill() {
	local pid

	pid=$(main_pid)
	kill -KILL "$pid"
	# the listening socket is systemd's: nobody is refused meanwhile
	check "a call during the restart is served" answers greeter
	check "a killed daemon is replaced" within 10 restarted_after "$pid"
	check "the socket is the same" test -S "$socket"
}

test_clients_survive_restart() {
	local out=/tmp/bound client

	eventctl bind --reconnect keeper --reply-with kept >"$out" 2>&1 &
	client=$!
	check "a client holds an alias" within 10 keeper_answers
	check "restart" systemctl restart eventd.service
	check "the client comes back and holds it again" \
		within 15 keeper_answers
	check "it is the same client" kill -0 "$client"
	kill "$client"
	wait "$client" 2>/dev/null
}

keeper_answers() {
	[ "$(eventctl --timeout 2s call keeper any x)" = kept ]
}

test_failing_start_recovers() {
	local pid

	mv "$conf/eventd.conf" /tmp/keep.conf
	echo 'Nonsense' >"$conf/eventd.conf"
	check_not "a wrong configuration refuses to start" \
		systemctl restart eventd.service
	# B64: more starts in little time than any limit bears
	for _ in $(seq 30); do
		timeout 0.1 eventctl post greeter hello x >/dev/null 2>&1
	done
	check_is "the socket is still there" active \
		"$(systemctl is-active eventd.socket)"
	check_like "the journal names file and line" 'eventd\.conf:1' \
		"$(journal -o cat)"
	mv /tmp/keep.conf "$conf/eventd.conf"
	check "it comes up by itself once that is mended" \
		within 15 answers greeter
}

test_journal_fields() {
	local line

	call greeter fail x >/dev/null 2>&1
	line=$(journal -o json EVENTD_SESSION=greeter | tail -n 1)
	check_not "one can look for a session's lines" [ -z "$line" ]
	check_is "the field that names the event" session.restarts \
		"$(jq -r .EVENTD_LOG <<<"$line")"
	check_like "the reason is a field" 'on purpose' \
		"$(jq -r .EVENTD_REASON <<<"$line")"
	check_is "the identifier is eventd" eventd \
		"$(jq -r .SYSLOG_IDENTIFIER <<<"$line")"
	check_is "the priority is warning" 4 "$(jq -r .PRIORITY <<<"$line")"
	check_like "the place in the code" '^daemon/.*\.c$' \
		"$(jq -r .CODE_FILE <<<"$line")"
}

# As its README says: copied to /etc, they run, plugins too, though the unit
# may not make memory executable.
test_installed_examples() {
	local from=/usr/share/doc/eventd/examples plugin

	cp -r "$from/sessions.d" "$from/lua" "$conf"
	plugin=$(find /usr/lib -name pingpong.so -path '*/eventd/plugins/*')
	sed -i "s|^Plugin=.*|Plugin=$plugin|" "$conf"/sessions.d/p?ng.conf
	check "reload with the examples" systemctl reload eventd.service
	check_like "a Lua example answers" World "$(call greeter greet World)"
	check_like "two plugins play" ns "$(call ping run 1000)"
	check_is "all are up" up \
		"$(eventctl --json list | jq -r .state | sort -u)"
}

test_stop() {
	check "stop returns" systemctl stop eventd.service
	check_is "it exited with 0" "0 success" \
		"$(prop eventd.service ExecMainStatus) $(
			prop eventd.service Result)"
	check "the socket waits for the next client" test -S "$socket"
	check "which starts it again" answers greeter
	systemctl stop eventd.socket eventd.service
	check_not "without the socket unit the socket goes" test -e "$socket"
	check "the directory stays" test -d /run/eventd
	check "starting the service brings its socket" \
		systemctl start eventd.service
	check "and it answers" answers greeter
	check "enable" systemctl enable eventd.service
	check "that enables the socket too" \
		systemctl is-enabled eventd.socket
}

test_user_instance() {
	local uid dir

	uid=$(id -u tester)
	dir=/run/user/$uid
	install -d -m 700 -o tester -g tester "$dir" /tmp/home
	mkdir -p /tmp/home/.config/eventd/sessions.d
	chown -R tester: /tmp/home
	check "the user's manager starts" \
		systemd-run -q --unit=manager --uid=tester -p Type=notify \
		-p Delegate=yes -E XDG_RUNTIME_DIR="$dir" -E HOME=/tmp/home \
		/usr/lib/systemd/systemd --user
	check_is "systemd-analyze verify is silent about the user units" "" \
		"$(mine systemd-analyze --user verify --man=no \
			/usr/lib/systemd/user/eventd.service \
			/usr/lib/systemd/user/eventd.socket 2>&1)"
	check "the user's socket starts" \
		mine systemctl --user start eventd.socket
	check_is "it is the user's alone" "tester 600" \
		"$(stat -c '%U %a' "$dir/eventd/eventd.sock")"
	check "the first ping starts the user's daemon" \
		mine eventctl --user ping
	check "reload" mine systemctl --user reload eventd.service
	check "stop" mine systemctl --user stop eventd.service eventd.socket
	check_not "the socket is gone" test -e "$dir/eventd/eventd.sock"
}

mine() {
	as_user tester tester env XDG_RUNTIME_DIR="/run/user/$(id -u tester)" \
		HOME=/tmp/home "$@"
}

set_up
for name in units_verify first_post_starts_it socket_rights confinement \
	readiness reload watchdog watchdog_of_loops kill \
	clients_survive_restart failing_start_recovers journal_fields \
	stop installed_examples user_instance; do
	printf -- '--- %s\n' "$name"
	"test_$name"
done
if [ "$failures" -gt 0 ]; then
	journalctl --sync
	journalctl --no-pager | tail -n 100
fi
finish
