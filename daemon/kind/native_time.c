/* Timers of plugins: the part of evd_host that is about time. The home's
 * thread. */
#include <errno.h>
#include <string.h>

#include "base/calendar.h"
#include "kernel/delay_ask.h"
#include "kernel/sched.h"
#include "kind/native.h"
#include "proto/envelope.h"
#include "proto/status.h"

static const uint64_t most_ms = (UINT64_MAX >> 2) / NS_PER_MS;

static struct native *
native_of(struct evd_ctx *ctx)
{
	return (struct native *)ctx;
}

static int
errno_of_delay(int r)
{
	switch (r) {
	case DELAY_E_LIMIT:
		return -EDQUOT;
	case DELAY_E_NO_ALIAS:
		return -ENOENT;
	case DELAY_E_FIRED:
		return -ESRCH;
	case DELAY_E_NEVER:
	case DELAY_E_CALENDAR:
		return -EINVAL;
	default:
		return r;
	}
}

/* ---- setting ------------------------------------------------------------- */

/* Whom and what. */
static int
init_event(struct native *n, const char *alias, const char *event,
	const void *data, size_t size, struct delay_init *init)
{
	size_t event_size = strlen(event);

	if (!name_is_valid(event, event_size, ENVELOPE_EVENT_MAX))
		return -EINVAL;
	if (size > native_sched(n)->kernel->limits.max_payload)
		return -EMSGSIZE;
	init->event = event;
	init->event_size = (uint8_t)event_size;
	init->data = data;
	init->size = (uint32_t)size;
	init->alias = alias;
	if (alias)
		init->alias_size = (uint32_t)strlen(alias);
	else
		init->to = n->session->id;
	return 0;
}

/* To oneself, once: what most are. */
static int
delay_own(struct native *n, const struct evd_delay_args *delay, uint64_t *timer)
{
	size_t event_size = strlen(delay->event);
	struct delay_own own;

	if (!name_is_valid(delay->event, event_size, ENVELOPE_EVENT_MAX))
		return -EINVAL;
	if (delay->size > native_sched(n)->kernel->limits.max_payload)
		return -EMSGSIZE;
	own.event = delay->event;
	own.event_size = (uint8_t)event_size;
	own.data = delay->data;
	own.size = (uint32_t)delay->size;
	own.due_ns = delay_due_in(native_sched(n), delay->delay_ms * NS_PER_MS);
	return errno_of_delay(
		delay_set_own(native_sched(n), n->session, &own, timer));
}

static int
delay_other(
	struct native *n, const struct evd_delay_args *delay, uint64_t *timer)
{
	struct delay_init init = {.alias = NULL};
	int r = init_event(
		n, delay->alias, delay->event, delay->data, delay->size, &init);

	if (r)
		return r;
	init.due_ns =
		delay_due_in(native_sched(n), delay->delay_ms * NS_PER_MS);
	init.repeat_ns = delay->repeat_ms * NS_PER_MS;
	return errno_of_delay(
		delay_set(native_sched(n), n->session, &init, timer, NULL));
}

int
native_delay(struct evd_ctx *ctx, const struct evd_delay_args *delay,
	uint64_t *timer)
{
	struct native *n = native_of(ctx);

	if (delay->delay_ms > most_ms || delay->repeat_ms > most_ms)
		return -EINVAL;
	if (!delay->alias && !delay->repeat_ms)
		return delay_own(n, delay, timer);
	return delay_other(n, delay, timer);
}

static int
init_name(const char *name, struct delay_init *init)
{
	size_t size = name ? strlen(name) : 0;

	if (name && !name_is_valid(name, size, DELAY_NAME_MAX))
		return -EINVAL;
	init->name = name;
	init->name_size = (uint8_t)size;
	return 0;
}

static bool
times_ok(const struct evd_timer_args *a)
{
	bool span = a->delay_ms || a->repeat_ms;

	if (a->clock > EVD_CLOCK_WALL || a->misfire > EVD_MISFIRE_ALL ||
		a->at_ns < 0 || a->delay_ms > most_ms ||
		a->repeat_ms > most_ms || a->slack_ms > most_ms ||
		a->ttl_ms > most_ms)
		return false;
	if (a->calendar)
		return !span && !a->at_ns && a->clock != EVD_CLOCK_BOOTTIME;
	return !a->at_ns || (!a->delay_ms && a->clock != EVD_CLOCK_BOOTTIME);
}

static void
init_times(struct native *n, const struct evd_timer_args *a,
	struct delay_init *init)
{
	init->clock = a->at_ns ? DELAY_WALL : (enum delay_clock)a->clock;
	init->due_ns = a->at_ns ? (uint64_t)a->at_ns
				: delay_now(native_sched(n), init->clock) +
					  a->delay_ms * NS_PER_MS;
	init->repeat_ns = a->repeat_ms * NS_PER_MS;
	init->slack_ns = a->slack_ms * NS_PER_MS;
	init->misfire = (enum delay_misfire)a->misfire;
	init->ttl_ns = a->ttl_ms * NS_PER_MS;
	init->urgent = a->urgent;
}

/* Its id comes by an event. */
static int
timer_ask(struct native *n, const struct evd_timer_args *a,
	const struct delay_init *init, uint64_t *timer)
{
	struct native_call *told;
	int r;

	if (!a->reply_event ||
		!name_is_valid(a->reply_event, strlen(a->reply_event),
			ENVELOPE_EVENT_MAX))
		return -EINVAL;
	told = native_call_new(n, a->reply_event);
	if (!told)
		return -ENOMEM;
	r = session_delay(n->session, init, (uintptr_t)told, &told->call);
	if (timer)
		*timer = 0;
	if (!r)
		return 0;
	native_call_free(told);
	return -status_errno(sched_status(r));
}

static int
timer_set(struct native *n, const struct evd_timer_args *a,
	const struct delay_init *init, uint64_t *timer)
{
	uint64_t replaced;
	int r;

	if (a->keep == EVD_KEEP_DURABLE)
		return timer_ask(n, a, init, timer);
	r = delay_set(native_sched(n), n->session, init, timer, &replaced);
	return r ? errno_of_delay(r) : replaced != 0;
}

int
native_timer(
	struct evd_ctx *ctx, const struct evd_timer_args *args, uint64_t *timer)
{
	struct native *n = native_of(ctx);
	struct delay_init init = {.alias = NULL};
	struct evd_timer_args a = {.size = 0};
	char error[CALENDAR_ERROR_SIZE];
	int r;

	memcpy(&a, args, args->size < sizeof(a) ? args->size : sizeof(a));
	if (!a.event || !times_ok(&a))
		return -EINVAL;
	r = init_event(n, a.alias, a.event, a.data, a.data_size, &init);
	if (!r)
		r = init_name(a.name, &init);
	if (r)
		return r;
	init_times(n, &a, &init);
	if (a.calendar) {
		r = calendar_new(a.calendar, a.zone,
			&native_sched(n)->kernel->zones, &init.calendar, error);
		if (r)
			return r < 0 ? r : -EINVAL;
	}
	r = timer_set(n, &a, &init, timer);
	calendar_unref(init.calendar);
	return r;
}

/* ---- changing ------------------------------------------------------------ */

/* One of its own, by id or, if that is 0, by name; 0: there is none. */
static uint64_t
own_timer(const struct native *n, uint64_t timer, const char *name)
{
	if (!timer)
		return name ? delay_named(native_sched(n), n->session->id, NULL,
				      name, strlen(name))
			    : 0;
	if (!delay_id_is_stored(timer) &&
		delay_sched(timer) != native_sched(n)->index)
		return 0;
	return delay_owner(native_sched(n), timer) == n->session->id ? timer
								     : 0;
}

int
native_cancel(struct evd_ctx *ctx, uint64_t timer)
{
	struct native *n = native_of(ctx);

	return errno_of_delay(
		delay_cancel(native_sched(n), own_timer(n, timer, NULL)));
}

int
native_cancel_name(struct evd_ctx *ctx, const char *name)
{
	struct native *n = native_of(ctx);

	return errno_of_delay(
		delay_cancel(native_sched(n), own_timer(n, 0, name)));
}

uint32_t
native_cancel_all(struct evd_ctx *ctx)
{
	struct native *n = native_of(ctx);

	return delays_cancel_all(native_sched(n), n->session);
}

int
native_adjust(struct evd_ctx *ctx, uint64_t timer, const char *name,
	const struct evd_adjust_args *args)
{
	struct native *n = native_of(ctx);
	struct evd_adjust_args a = {.size = 0};
	struct delay_change change;

	memcpy(&a, args, args->size < sizeof(a) ? args->size : sizeof(a));
	if (a.delay_ms > most_ms || a.repeat_ms > most_ms || a.at_ns < 0 ||
		(a.at_ns && a.delay_ms) || !(a.due || a.repeat))
		return -EINVAL;
	change = (struct delay_change){
		.due = a.due,
		.wall = a.at_ns != 0,
		.due_ns = a.at_ns ? (uint64_t)a.at_ns : a.delay_ms * NS_PER_MS,
		.repeat = a.repeat,
		.repeat_ns = a.repeat_ms * NS_PER_MS,
	};
	return errno_of_delay(delay_adjust(
		native_sched(n), own_timer(n, timer, name), &change));
}

static void
info_of(const struct sched *s, const struct delay *delay,
	struct evd_timer_info *info)
{
	const struct delay_more *more = delay->more;

	*info = (struct evd_timer_info){
		.size = sizeof(*info),
		.id = delay_public_id(delay),
		.durable = delay_is_stored(delay),
		.name = delay_name(delay),
		.event = delay_event(delay),
		.alias = delay->timer.b & DELAY_ALIAS
				 ? delay_parcel(delay)->alias->name
				 : NULL,
		.data_size = delay->timer.size,
		.due_ns = (int64_t)delay_due_wall_ns(s, delay),
		.clock = (uint32_t)delay_clock(delay),
	};
	if (!more)
		return;
	info->repeat_ms = more->repeat_ns / NS_PER_MS;
	info->slack_ms = more->slack_ns / NS_PER_MS;
	info->misfire = more->misfire;
	if (!more->calendar)
		return;
	info->calendar = more->calendar->text;
	info->zone = calendar_zone(more->calendar);
}

int
native_next_timer(
	struct evd_ctx *ctx, uint64_t after, struct evd_timer_info *info)
{
	struct native *n = native_of(ctx);
	const struct delay *delay = delay_find(&native_sched(n)->delays, after);
	struct evd_timer_info full;
	size_t size = info->size;

	if (after && (!delay || delay->owner != n->session->id))
		return -ESRCH;
	delay = delays_next_of(&native_sched(n)->delays, n->session, delay);
	if (!delay)
		return -ENOENT;
	info_of(native_sched(n), delay, &full);
	memcpy(info, &full, size < sizeof(full) ? size : sizeof(full));
	info->size = size;
	return 0;
}
