/* Verbs about what was sent: cancel_call. */
#include <inttypes.h>
#include <stdio.h>

#include "verb/verb.h"

void
verb_cancel_call(struct peer *p, const Eventd__V1__Request *r)
{
	uint64_t call = r->cancel_call->call;
	char text[VERB_TEXT_MAX] = "";
	int e = session_cancel_token(p->session, call);

	if (e == SESSION_E_NO_CALL) {
		snprintf(text, sizeof(text),
			"no call %" PRIu64
			" of this connection waits for an answer",
			call);
		verb_refuse(p, r->id, EVD_STATUS_NOT_FOUND, text);
		return;
	}
	verb_refuse(p, r->id, e ? EVD_STATUS_NO_MEMORY : EVD_STATUS_OK, text);
}
