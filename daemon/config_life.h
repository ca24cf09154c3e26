#pragma once
/* The keys of [Session] that say when a session starts, ends and with whom it
 * is started again; f->target is a struct config_session. See config_file.h. */
#include "config_file.h"

struct config;
struct session_spec;

/* Group=site/db */
void config_set_group(
	struct config_file *f, const struct config_key *key, const char *value);
/* After=a b c: files or aliases */
void config_set_after(
	struct config_file *f, const struct config_key *key, const char *value);
/* Bind=jobs:shared:4 news:fanout */
void config_set_bind(
	struct config_file *f, const struct config_key *key, const char *value);
/* Order=-5: a whole number */
void config_set_order(
	struct config_file *f, const struct config_key *key, const char *value);
/* The whole file has been read; Start=, IdleStop= and Collect=, those that are
 * there, stood in places 0, 1 and 2. */
void config_check_life(
	struct config_file *f, const struct config_place places[3]);
/* Mode= stands at @at, if anywhere. */
void config_check_mode(struct config_file *f, struct config_place at);
/* Bind= stands at @at, if anywhere. */
void config_check_bind(struct config_file *f, struct config_place at);
/* Digest of what these keys say, over @digest. */
uint64_t config_life_digest(uint64_t digest, const struct session_spec *spec);
/* Make the groups that sessions name and no file describes, and those above
 * them: 0 or -ENOMEM. The specs are to be put in order again. */
int config_groups_add(struct config *config);
