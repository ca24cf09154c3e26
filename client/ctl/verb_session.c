/* eventctl session: who runs a session's handlers, and how fast. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"
#include "text.h"

enum { PROBES = 100, PROBES_MAX = 100000 };

/* Of calls, one after the other. */
struct latency {
	uint64_t p50_ns, p99_ns;
};

static int
by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int
call_once(struct ctl *ctl, const char *event, uint64_t *ns)
{
	struct evd_event *reply;
	uint64_t from = now_ns();
	int r = evd_call(ctl->evd, ctl->subject, event, "", 0, -1, &reply);

	*ns = now_ns() - from;
	if (r < 0)
		return ctl_fail_evd(ctl);
	evd_event_free(reply);
	return 0;
}

static int
measure(struct ctl *ctl, const char *event, uint64_t n, struct latency *out)
{
	uint64_t *ns = calloc(n, sizeof(*ns));
	int r = ns ? 0 : ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");

	for (uint64_t i = 0; r == 0 && i < n; i++)
		r = call_once(ctl, event, &ns[i]);
	if (r == 0) {
		qsort(ns, n, sizeof(*ns), by_size);
		out->p50_ns = ns[n / 2];
		out->p99_ns = ns[n * 99 / 100];
	}
	free(ns);
	return r;
}

/* Its executor's name, of EVD_ALIAS_MAX bytes at most. */
static int
look(struct ctl *ctl, char name[EVD_ALIAS_MAX + 1])
{
	struct evd_report *report;
	const struct evd_session *s;

	if (evd_status(ctl->evd, ctl->subject, &report) < 0)
		return ctl_fail_evd(ctl);
	s = evd_report_session(report);
	snprintf(name, EVD_ALIAS_MAX + 1, "%s",
		s ? evd_session_executor(s) : "");
	evd_report_free(report);
	return 0;
}

static void
print_latency(struct ctl *ctl, const char *executor, const struct latency *l)
{
	fprintf(ctl->out, "%-12s %9.1f us %9.1f us\n", executor,
		(double)l->p50_ns / 1000, (double)l->p99_ns / 1000);
}

static void
latency_json(struct json *j, const char *key, const struct latency *l)
{
	json_object(j, key);
	json_uint(j, "p50_ns", l->p50_ns);
	json_uint(j, "p99_ns", l->p99_ns);
	json_object_end(j);
}

static void
print(struct ctl *ctl, const char *before, const char *after,
	const struct latency *l, bool probed)
{
	struct json *j = &ctl->json;

	if (ctl->as_json) {
		json_object(j, NULL);
		json_string(j, "alias", ctl->subject);
		json_string(j, "before", before);
		json_string(j, "executor", after);
		if (probed) {
			latency_json(j, "latency_before", &l[0]);
			latency_json(j, "latency", &l[1]);
		}
		json_object_end(j);
		json_line_end(j);
	} else if (probed) {
		fprintf(ctl->out, "%-12s %12s %12s\n", "EXECUTOR", "P50",
			"P99");
		print_latency(ctl, before, &l[0]);
		print_latency(ctl, after, &l[1]);
	} else {
		ctl_detail(ctl, "%s: %s instead of %s", ctl->subject, after,
			before);
	}
}

static int
change(struct ctl *ctl, const char *name)
{
	const char *event = ctl_value(ctl, OPT_PROBE);
	char before[EVD_ALIAS_MAX + 1];
	struct latency l[2] = {{0, 0}, {0, 0}};
	uint64_t n = PROBES;
	int r = ctl_count(ctl, OPT_MOST, &n);

	if (r == 0 && (n < 1 || n > PROBES_MAX))
		return ctl_usage(ctl, "--count is from 1 to %d", PROBES_MAX);
	if (r == 0)
		r = look(ctl, before);
	if (r == 0 && event)
		r = measure(ctl, event, n, &l[0]);
	if (r)
		return r;
	if (evd_set_executor(ctl->evd, ctl->subject, name) < 0)
		return ctl_fail_evd(ctl);
	if (event)
		r = measure(ctl, event, n, &l[1]);
	if (r == 0)
		print(ctl, before, name, l, event != NULL);
	return r;
}

int
verb_session(struct ctl *ctl)
{
	int r;

	if (strcmp(ctl_word(ctl, 0), "executor") != 0)
		return ctl_usage(ctl,
			"session can do: executor ALIAS NAME; not '%s'",
			ctl_word(ctl, 0));
	ctl->subject = ctl_word(ctl, 1);
	r = ctl_check_name(ctl, "alias", ctl->subject, EVD_ALIAS_MAX);
	if (r == 0 && ctl_value(ctl, OPT_PROBE))
		r = ctl_check_name(
			ctl, "event", ctl_value(ctl, OPT_PROBE), EVD_EVENT_MAX);
	if (r == 0)
		r = ctl_connect(ctl);
	return r ? r : change(ctl, ctl_word(ctl, 2));
}
