# Shared by the tests here: sourced, not run.
# shellcheck shell=bash
failures=0
checks=0

ok() {
	checks=$((checks + 1))
	printf 'ok      %s\n' "$1"
}

not_ok() {
	checks=$((checks + 1))
	failures=$((failures + 1))
	printf 'FAILED  %s\n' "$1"
	[ $# -lt 2 ] || printf '%s\n' "$2" | sed 's/^/        /'
}

# check TEXT CMD...: CMD must succeed; what it said is shown if it does not.
check() {
	local text=$1 said

	shift
	if said=$("$@" 2>&1); then
		ok "$text"
	else
		not_ok "$text" "$* (exit $?): $said"
	fi
}

# check_not TEXT CMD...: CMD must fail.
check_not() {
	local text=$1 said

	shift
	if said=$("$@" 2>&1); then
		not_ok "$text" "$* succeeded: $said"
	else
		ok "$text"
	fi
}

# check_is TEXT WANTED GOT
check_is() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "wanted '$2', got '$3'"
	fi
}

# check_like TEXT REGEX GOT
check_like() {
	if [[ $3 =~ $2 ]]; then
		ok "$1"
	else
		not_ok "$1" "wanted /$2/, got '$3'"
	fi
}

# within SECONDS CMD...: waits until CMD succeeds.
within() {
	local end=$((SECONDS + $1))

	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.05
	done
}

finish() {
	printf '%d checks, %d failed\n' "$checks" "$failures"
	[ "$failures" -eq 0 ] || exit 1
	exit 0
}
