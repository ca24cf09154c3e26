/* Configuration files: whatever the bytes are, they are read or told to be
 * wrong with a place. The first byte picks the kind of file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_session.h"
#include "kernel/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_session(const char *text, size_t size, struct config_errors *errors)
{
	struct config_aliases aliases = {0};
	struct config_session s = {.n_loops = 4, .aliases = &aliases};

	if (config_session_parse(text, size, &s, errors))
		abort();
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

	if (config_file_parse(&f, text, size))
		abort();
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
