/* eventctl ping: to the daemon and back. One thread. */
#include <inttypes.h>
#include <time.h>

#include "ctl.h"
#include "when.h"

static void
pause_ms(uint64_t ms)
{
	struct timespec ts = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

static void
print_pong(struct ctl *ctl, int64_t rtt_ns)
{
	struct json *j = &ctl->json;
	char rtt[WHEN_TEXT_SIZE];

	if (!ctl->as_json) {
		span_format(rtt_ns, rtt, sizeof(rtt));
		fprintf(ctl->out, "%s answers in %s\n", evd_server(ctl->evd),
			rtt);
		return;
	}
	json_object(j, NULL);
	json_string(j, "server", evd_server(ctl->evd));
	json_int(j, "rtt_ns", rtt_ns);
	json_object_end(j);
	json_line_end(j);
}

static int
ping(struct ctl *ctl)
{
	int64_t rtt_ns;

	if (evd_ping(ctl->evd, &rtt_ns) < 0)
		return ctl_fail_evd(ctl);
	print_pong(ctl, rtt_ns);
	return ctl_flush(ctl);
}

int
verb_ping(struct ctl *ctl)
{
	uint64_t count = 1, interval_ms = 1000;
	int r = ctl_count(ctl, OPT_TIMES, &count);

	if (r == 0)
		r = ctl_span_ms(ctl, OPT_INTERVAL, &interval_ms);
	if (r == 0)
		r = ctl_connect(ctl);
	for (uint64_t i = 0; r == 0 && i < count; i++) {
		if (i > 0)
			pause_ms(interval_ms);
		r = ping(ctl);
	}
	return r;
}
