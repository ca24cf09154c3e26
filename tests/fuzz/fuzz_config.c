/* Configuration files: whatever the bytes are, they are read or told to be
 * wrong with a place. The first byte picks the kind of file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_session.h"
#include "kernel/spec.h"
#include "kernel/users.h"
#include "policy/rights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the rules, each is asked and gives an answer. */
static void
ask(struct policy *policy)
{
	struct creds creds = {.uid = 1000, .gid = 1000};
	struct rights *rights;

	if (policy_finish(policy))
		abort();
	rights = rights_new(policy, &creds);
	if (!rights)
		abort();
	for (unsigned right = 0; right < RIGHTS; right++) {
		struct verdict v =
			rights_ask(rights, (enum right)right, "a.b", "e");
		char text[64];

		if (!v.rule && !v.text)
			abort(); /* decided by nothing */
		if ((rights->open & 1 << right) && !v.allowed)
			abort();
		rights_explain(rights, &v, text, sizeof(text));
	}
	rights_unref(rights);
	policy_unref(policy);
}

static void
read_session(const char *text, size_t size, struct config_errors *errors)
{
	struct config_aliases aliases = {0};
	struct config_errors warnings = {0};
	struct config_session s = {.n_loops = 4,
		.aliases = &aliases,
		.policy = policy_new(0, false),
		.warnings = &warnings};

	if (!s.policy || config_session_parse(text, size, &s, errors))
		abort();
	ask(s.policy);
	config_errors_deinit(&warnings);
	config_aliases_check(&aliases, errors);
	if (!config_errors_any(errors) && (!s.spec->kind || !s.spec->n_aliases))
		abort(); /* accepted, though a session needs both */
	config_aliases_deinit(&aliases);
	spec_unref(s.spec);
}

static void
read_daemon(const char *text, size_t size, struct config_errors *errors)
{
	struct config config = {0};
	struct config_file f = {.path = "/memory.conf",
		.table = &config_table_daemon,
		.target = &config,
		.errors = errors};

	config.policy = policy_new(0, false);
	config.user_limits = limits_new(0, false);
	if (!config.policy || !config.user_limits ||
		config_file_parse(&f, text, size))
		abort();
	ask(config.policy);
	limits_finish(config.user_limits, 1000, 10000);
	limits_free(config.user_limits);
	config_errors_deinit(&config.warnings);
	free(config.socket);
	free(config.sessions_dir);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_errors errors = {0};
	char *text;

	if (size < 1)
		return 0;
	if (data[0] & 1)
		read_session((const char *)data + 1, size - 1, &errors);
	else
		read_daemon((const char *)data + 1, size - 1, &errors);
	for (size_t i = 0; i < errors.n; i++)
		if (!strstr(errors.lines[i], ".conf:"))
			abort(); /* no place */
	text = config_errors_text(&errors);
	if (!text)
		abort();
	free(text);
	config_errors_deinit(&errors);
	return 0;
}
