/* client/ctl/payload.c and pairs.c: what an event carries. */
#include "payload.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl.h"

enum { MAX_WORDS = 16, LIMIT = 32 };

/* A command line, its payload, and a pipe that is its standard input. */
struct fixture {
	char *argv[MAX_WORDS];
	struct args args;
	struct ctl ctl;
	struct payload payload;
	char error[ARGS_ERROR_SIZE];
	FILE *out, *err;
	char *err_text;
	size_t err_size;
	int input; /* to write to; -1: closed */
	int stdin_copy;
	char *data;
	size_t size;
	int code;
};

static int
setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	int fds[2];

	x->err = open_memstream(&x->err_text, &x->err_size);
	x->out = fopen("/dev/null", "w");
	x->payload.fd = -1;
	if (pipe(fds) < 0)
		return -1;
	x->stdin_copy = dup(STDIN_FILENO);
	dup2(fds[0], STDIN_FILENO);
	close(fds[0]);
	x->input = fds[1];
	*state = x;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *x = *state;

	payload_deinit(&x->payload);
	ctl_deinit(&x->ctl);
	args_deinit(&x->args);
	for (size_t i = 0; x->argv[i]; i++)
		free(x->argv[i]);
	fclose(x->err);
	fclose(x->out);
	free(x->err_text);
	dup2(x->stdin_copy, STDIN_FILENO);
	close(x->stdin_copy);
	if (x->input >= 0)
		close(x->input);
	free(x);
	return 0;
}

/* Open the payload of "post a e" and the words given. */
static int
open_with(struct fixture *x, const char *const *words)
{
	int argc = 0;

	x->argv[argc++] = strdup("eventctl");
	x->argv[argc++] = strdup("post");
	x->argv[argc++] = strdup("a");
	x->argv[argc++] = strdup("e");
	while (*words)
		x->argv[argc++] = strdup(*words++);
	assert_int_equal(args_parse(&x->args, argc, x->argv, x->error), 0);
	assert_int_equal(ctl_init(&x->ctl, &x->args, x->out, x->err, false), 0);
	return payload_open(&x->payload, &x->ctl, 2);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void
feed(struct fixture *x, const char *data, size_t size)
{
	assert_int_equal(write(x->input, data, size), size);
}

static void
feed_end(struct fixture *x)
{
	close(x->input);
	x->input = -1;
}

static void
assert_whole(struct fixture *x, const char *data, size_t size)
{
	assert_int_equal(
		payload_read(&x->payload, &x->ctl, LIMIT, &x->data, &x->size),
		0);
	assert_int_equal(x->size, size);
	if (size)
		assert_memory_equal(x->data, data, size);
}

static void
assert_told(struct fixture *x, const char *text)
{
	fflush(x->err);
	if (!strstr(x->err_text, text))
		fail_msg("'%s' does not say '%s'", x->err_text, text);
}

static void
test_no_word_is_empty(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS()), 0);
	assert_whole(x, "", 0);
}

static void
test_one_word_stays_as_it_is(void **state)
{
	struct fixture *x = *state;
	const char *word = " $x \"'\n\\ =";

	assert_int_equal(open_with(x, WORDS(word)), 0);
	assert_whole(x, word, strlen(word));
}

static void
test_data_stays_even_if_it_looks_like_something(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--data", "a=1")), 0);
	assert_whole(x, "a=1", 3);
}

static void
test_data_may_be_a_dash(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--data", "-")), 0);
	assert_whole(x, "-", 1);
}

static void
test_pairs_make_an_object(void **state)
{
	struct fixture *x = *state;
	const char *want = "{\"a\":\"1=\\\"\",\"b-c.d\":[1]}";

	assert_int_equal(open_with(x, WORDS("a=1=\"", "b-c.d:=[1]")), 0);
	assert_whole(x, want, strlen(want));
}

static void
test_pairs_refuse_bad_json(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("a:={")), 65);
	assert_told(x, "not JSON");
}

static void
test_pairs_refuse_a_name_twice(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("a=1", "b=1", "a:=2")), 64);
	assert_told(x, "a is given twice");
}

static void
test_pairs_must_be_utf8(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("a=\xff")), 65);
}

static void
test_two_words_are_refused(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("hello", "world")), 64);
	assert_told(x, "'world' is one word too many: quote");
}

static void
test_words_and_pairs_do_not_mix(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("a=1", "world")), 64);
}

static void
test_one_source_alone(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("word", "--data", "x")), 64);
	assert_told(x, "one payload alone");
}

static void
test_lines_need_an_input(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("word", "--lines")), 64);
}

static void
test_hex_and_base64_decode_words(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--hex", "00 ff")), 0);
	assert_whole(x, "\0\xff", 2);
}

static void
test_base64_is_no_pair(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--base64", "Zg==")), 0);
	assert_whole(x, "f", 1);
}

static void
test_what_is_not_hex_is_bad_data(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--hex", "0x")), 0);
	assert_int_equal(
		payload_read(&x->payload, &x->ctl, LIMIT, &x->data, &x->size),
		65);
	assert_told(x, "not hexadecimal");
}

static void
test_a_missing_file_is_no_input(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--file", "/nonexistent/x")), 66);
	assert_told(x, "/nonexistent/x: No such file");
}

static void
test_a_directory_is_no_input(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--file", "/")), 0);
	assert_int_equal(
		payload_read(&x->payload, &x->ctl, LIMIT, &x->data, &x->size),
		66);
}

static void
test_stdin_whole(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("-")), 0);
	feed(x, "a\0b\n", 4);
	feed_end(x);
	assert_whole(x, "a\0b\n", 4);
}

static void
test_empty_stdin_is_an_empty_payload(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("-")), 0);
	feed_end(x);
	assert_whole(x, "", 0);
}

static void
test_more_than_the_limit_is_too_large(void **state)
{
	struct fixture *x = *state;
	char data[LIMIT + 1] = "";

	assert_int_equal(open_with(x, WORDS("-")), 0);
	feed(x, data, sizeof(data));
	feed_end(x);
	assert_int_equal(
		payload_read(&x->payload, &x->ctl, LIMIT, &x->data, &x->size),
		65);
	assert_told(x, "over 32 bytes");
}

static void
test_the_limit_itself_passes(void **state)
{
	struct fixture *x = *state;
	char data[LIMIT];

	memset(data, 'x', sizeof(data));
	assert_int_equal(open_with(x, WORDS("-")), 0);
	feed(x, data, sizeof(data));
	feed_end(x);
	assert_whole(x, data, LIMIT);
}

/* ---- records ---- */

static int
take(struct fixture *x)
{
	return payload_take(
		&x->payload, &x->ctl, LIMIT, &x->data, &x->size, &x->code);
}

static void
assert_record(struct fixture *x, const char *text, size_t size)
{
	assert_int_equal(take(x), 1);
	assert_int_equal(x->size, size);
	if (size)
		assert_memory_equal(x->data, text, size);
}

static void
fill(struct fixture *x)
{
	assert_int_equal(payload_fill(&x->payload, &x->ctl), 0);
}

static void
test_lines_come_as_they_are_fed(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--lines")), 0);
	assert_int_equal(take(x), 0);
	feed(x, "one\r\n\ntw", 8);
	fill(x);
	assert_record(x, "one\r", 4); /* the byte before the line feed stays */
	assert_record(x, "", 0);
	assert_int_equal(take(x), 0);
	feed(x, "o\nlast", 6);
	fill(x);
	assert_record(x, "two", 3);
	assert_int_equal(take(x), 0);
	feed_end(x);
	fill(x);
	assert_true(x->payload.ended);
	assert_record(x, "last", 4); /* without a line feed */
	assert_int_equal(take(x), 0);
}

static void
test_no_input_is_no_line(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--lines", "-")), 0);
	feed_end(x);
	fill(x);
	assert_true(x->payload.ended);
	assert_int_equal(take(x), 0);
}

static void
test_null_bytes_end_records(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--null", "-")), 0);
	feed(x, "a\nb\0\0c", 6);
	feed_end(x);
	fill(x);
	fill(x);
	assert_record(x, "a\nb", 3);
	assert_record(x, "", 0);
	assert_record(x, "c", 1);
	assert_int_equal(take(x), 0);
}

static void
test_a_line_over_the_limit_is_too_large(void **state)
{
	struct fixture *x = *state;
	char data[LIMIT + 1];

	memset(data, 'x', sizeof(data));
	assert_int_equal(open_with(x, WORDS("--lines", "-")), 0);
	feed(x, data, sizeof(data));
	fill(x);
	assert_int_equal(take(x), -1);
	assert_int_equal(x->code, 65);
}

static void
test_lines_in_hex(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(open_with(x, WORDS("--lines", "--hex", "-")), 0);
	feed(x, "00\r\nff\nxx\n", 10);
	fill(x);
	assert_record(x, "\0", 1);
	assert_record(x, "\xff", 1);
	assert_int_equal(take(x), -1);
	assert_int_equal(x->code, 65);
}

static void
test_many_lines_in_little_memory(void **state)
{
	struct fixture *x = *state;
	char block[16384];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = i % 16 == 15 ? '\n' : 'x';
	assert_int_equal(open_with(x, WORDS("--lines", "-")), 0);
	for (int i = 0; i < 100; i++) {
		feed(x, block, sizeof(block));
		fill(x);
		for (; take(x) == 1; n++)
			assert_int_equal(x->size, 15);
	}
	assert_int_equal(n, 100 * sizeof(block) / 16);
	assert_true(x->payload.max <= 262144);
}

#define WITH_FIXTURE(test) \
	cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FIXTURE(test_no_word_is_empty),
		WITH_FIXTURE(test_one_word_stays_as_it_is),
		WITH_FIXTURE(test_data_stays_even_if_it_looks_like_something),
		WITH_FIXTURE(test_data_may_be_a_dash),
		WITH_FIXTURE(test_pairs_make_an_object),
		WITH_FIXTURE(test_pairs_refuse_bad_json),
		WITH_FIXTURE(test_pairs_refuse_a_name_twice),
		WITH_FIXTURE(test_pairs_must_be_utf8),
		WITH_FIXTURE(test_two_words_are_refused),
		WITH_FIXTURE(test_words_and_pairs_do_not_mix),
		WITH_FIXTURE(test_one_source_alone),
		WITH_FIXTURE(test_lines_need_an_input),
		WITH_FIXTURE(test_hex_and_base64_decode_words),
		WITH_FIXTURE(test_base64_is_no_pair),
		WITH_FIXTURE(test_what_is_not_hex_is_bad_data),
		WITH_FIXTURE(test_a_missing_file_is_no_input),
		WITH_FIXTURE(test_a_directory_is_no_input),
		WITH_FIXTURE(test_stdin_whole),
		WITH_FIXTURE(test_empty_stdin_is_an_empty_payload),
		WITH_FIXTURE(test_more_than_the_limit_is_too_large),
		WITH_FIXTURE(test_the_limit_itself_passes),
		WITH_FIXTURE(test_lines_come_as_they_are_fed),
		WITH_FIXTURE(test_no_input_is_no_line),
		WITH_FIXTURE(test_null_bytes_end_records),
		WITH_FIXTURE(test_a_line_over_the_limit_is_too_large),
		WITH_FIXTURE(test_lines_in_hex),
		WITH_FIXTURE(test_many_lines_in_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
