/* Profile: what events cost in the daemon. Belongs to the thread that uses the
 * handle; pages to whoever owns them. As in look.c the opaque types are the
 * unpacked messages. */
#include <stddef.h>

#include "page.h"

EVD_PAGE(profiles, profile, ProfileReport, profile, sessions)

static const Eventd__V1__SessionProfile *
profile_pb(const struct evd_profile *p)
{
	return (const Eventd__V1__SessionProfile *)p;
}

static const Eventd__V1__ProfileRow *
row_pb(const struct evd_profile_row *row)
{
	return (const Eventd__V1__ProfileRow *)row;
}

int
evd_profile(struct evd *c, const char *alias, uint64_t after, int what,
	struct evd_profiles **page)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Profile profile = EVENTD__V1__PROFILE__INIT;
	int r;

	EVD_CHECK(c);
	r = alias && *alias ? evd__alias_check(c, alias) : 0;
	if (r)
		return r;
	if (alias)
		profile.alias = (char *)(uintptr_t)alias;
	profile.after = after;
	if (what & EVD_PROFILE_ON)
		profile.set = EVENTD__V1__PROFILE_SWITCH__PROFILE_ON;
	if (what & EVD_PROFILE_OFF)
		profile.set = EVENTD__V1__PROFILE_SWITCH__PROFILE_OFF;
	profile.reset = (what & EVD_PROFILE_RESET) != 0;
	request.verb_case = EVENTD__V1__REQUEST__VERB_PROFILE;
	request.profile = &profile;
	return evd__request_for(c, &request,
		EVENTD__V1__RESPONSE__RESULT_PROFILE, (struct response **)page);
}

bool
evd_profiles_on(const struct evd_profiles *page)
{
	return profiles_pb(page)->on;
}

uint64_t
evd_profiles_gone_calls(const struct evd_profiles *page)
{
	return profiles_pb(page)->gone_calls;
}

uint64_t
evd_profiles_gone_ns(const struct evd_profiles *page)
{
	return profiles_pb(page)->gone_ns;
}

uint64_t
evd_profile_session(const struct evd_profile *p)
{
	return profile_pb(p)->id;
}

const char *
evd_profile_alias(const struct evd_profile *p)
{
	return profile_pb(p)->alias;
}

const char *
evd_profile_kind(const struct evd_profile *p)
{
	return profile_pb(p)->kind;
}

bool
evd_profile_on(const struct evd_profile *p)
{
	return profile_pb(p)->on;
}

const struct evd_profile_row *
evd_profile_row(const struct evd_profile *p, size_t i)
{
	const Eventd__V1__SessionProfile *pb = profile_pb(p);

	if (i >= pb->n_rows)
		return NULL;
	return (const struct evd_profile_row *)pb->rows[i];
}

const char *
evd_profile_row_event(const struct evd_profile_row *row)
{
	return row_pb(row)->event;
}

uint64_t
evd_profile_row_value(const struct evd_profile_row *row, int value)
{
	const Eventd__V1__ProfileRow *pb = row_pb(row);
	const uint64_t values[EVD_N_PROFILE_VALUES] = {
		[EVD_PROFILE_CALLS] = pb->calls,
		[EVD_PROFILE_OWN_NS] = pb->own_ns,
		[EVD_PROFILE_WHOLE_NS] = pb->whole_ns,
		[EVD_PROFILE_WAIT_NS] = pb->wait_ns,
		[EVD_PROFILE_WAIT_MAX_NS] = pb->wait_max_ns,
		[EVD_PROFILE_LATE] = pb->late,
		[EVD_PROFILE_LATE_NS] = pb->late_ns,
		[EVD_PROFILE_LATE_MAX_NS] = pb->late_max_ns,
	};

	return value >= 0 && value < EVD_N_PROFILE_VALUES ? values[value] : 0;
}
