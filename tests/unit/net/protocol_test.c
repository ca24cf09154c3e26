/* The worked example of docs/PROTOCOL.md, spoken to a daemon byte by byte. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

enum { LINE = 4096 };

static FILE *
open_page(void)
{
	const char *root = getenv("EVENTD_SOURCE");
	char path[4096];
	FILE *page;

	snprintf(path, sizeof(path), "%s/docs/PROTOCOL.md", root ? root : ".");
	page = fopen(path, "r");
	if (!page)
		fail_msg("no %s: set EVENTD_SOURCE", path);
	return page;
}

/* The bytes of an example's line, behind its sign. */
static size_t
parse(const char *text, uint8_t *out)
{
	size_t n = 0;
	char *end;

	for (; *text && *text != '\n'; text = end) {
		out[n++] = (uint8_t)strtoul(text, &end, 16);
		if (end == text)
			fail_msg("no byte: %s", text);
		while (*end == ' ')
			end++;
	}
	return n;
}

static void
expect_bytes(struct client *c, const uint8_t *want, size_t size)
{
	uint8_t got[LINE];
	char text[3 * LINE] = "";
	size_t n = 0;
	ssize_t r;

	for (int i = 0; i < 100 && n < size; i++) {
		rig_turn(c->rig);
		r = recv(c->fd, got + n, size - n, 0);
		n += r > 0 ? (size_t)r : 0;
	}
	for (size_t i = 0; i < n; i++)
		snprintf(text + 3 * i, 4, "%02x ", got[i]);
	if (n != size || memcmp(got, want, n))
		fail_msg("it says: %s", text);
}

static void
test_the_example(void **state)
{
	struct rig *rig = *state;
	struct client *c;
	char line[LINE];
	uint8_t bytes[LINE];
	unsigned n = 0;
	FILE *page = open_page();

	rig->server.shared.version = "eventd 0.1.0";
	fake_new(rig, 0, "thumbs");
	c = client_open(rig, 0);
	while (fgets(line, sizeof(line), page)) {
		if (!strncmp(line, "    > ", 6)) {
			client_write(c, bytes, parse(line + 6, bytes));
			n++;
		} else if (!strncmp(line, "    < ", 6)) {
			expect_bytes(c, bytes, parse(line + 6, bytes));
			n++;
		}
	}
	fclose(page);
	assert_int_equal(n, 19);
	client_expect_end(c);
	client_free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
		test_the_example, rig_setup, rig_teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
