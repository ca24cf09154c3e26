#include "kind/call_notice.h"

#include "base/log.h"
#include "kernel/sched.h"

const char call_cancelled_event[] = "_cancelled";

static bool
tell(struct session *s, const struct msg_init *init, uint64_t call, int status)
{
	struct sched *sched = atomic_load(&s->home);
	struct msg *m = msg_new(&sched->pool, init);

	if (!m) {
		log_err("kernel.no-memory", "what=notice session=\"%s\"",
			session_name(s));
		return false;
	}
	m->to = s->id;
	msg_extra(m)->re = call;
	msg_extra(m)->status = (uint32_t)status;
	sched_control(sched, m);
	return true;
}

void
call_notice_cancelled(struct session *s, uint64_t call)
{
	tell(s,
		&(struct msg_init){
			.event = call_cancelled_event,
			.event_size = sizeof(call_cancelled_event) - 1,
			.event_static = true,
			.extra = true,
		},
		call, EVD_STATUS_CANCELLED);
}

bool
call_notice_answer(struct session *s, uint64_t call, const char *event,
	uint8_t event_size, const struct msg *reply)
{
	return tell(s,
		&(struct msg_init){
			.event = event,
			.event_size = event_size,
			.data = msg_payload(reply),
			.size = reply->size,
			.extra = true,
		},
		call, (int)msg_status(reply));
}
