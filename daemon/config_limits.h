#pragma once
/* [Limits] of eventd.conf: what each user may make the daemon hold. As
 * config.h. */
#include "config_file.h"

/* A key below [Limits] or [Limits USER], whose target is a struct config. */
void config_limits_set(struct config_file *f, const char *words,
	const char *key, const char *value);
