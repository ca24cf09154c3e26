#pragma once
/* What tells a session of calls by an event of its control lane: answers that
 * it does not wait for, and calls that it has deferred and nobody waits for
 * any more. msg_extra() says which call and how it went. */
#include <stdbool.h>
#include <stdint.h>

struct msg;
struct session;

extern const char call_cancelled_event[]; /* "_cancelled" */

static inline bool
call_notice_is_cancelled(const char *event)
{
	return event == call_cancelled_event;
}

/* Tell @s that its deferred @call was cancelled. */
void call_notice_cancelled(struct session *s, uint64_t call);
/* Give @s the answer to its own @call as the event @event; false: out of
 * memory. */
bool call_notice_answer(struct session *s, uint64_t call, const char *event,
	uint8_t event_size, const struct msg *reply);
