/* client/ctl/json.c and json_check.c. */
#include "json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct json json;
	FILE *f;
	char *text;
	size_t size;
};

static int
setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	x->f = open_memstream(&x->text, &x->size);
	json_init(&x->json, x->f);
	*state = x;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *x = *state;

	fclose(x->f);
	free(x->text);
	free(x);
	return 0;
}

static const char *
written(struct fixture *x)
{
	fflush(x->f);
	return x->text;
}

static void
test_objects_and_arrays_nest(void **state)
{
	struct fixture *x = *state;
	struct json *j = &x->json;

	json_object(j, NULL);
	json_array(j, "a");
	json_int(j, NULL, -1);
	json_object(j, NULL);
	json_object_end(j);
	json_array(j, NULL);
	json_array_end(j);
	json_array_end(j);
	json_bool(j, "b", true);
	json_verbatim(j, "c", "[1]");
	json_object_end(j);
	json_line_end(j);
	json_object(j, NULL);
	json_object_end(j);
	json_line_end(j);
	assert_string_equal(
		written(x), "{\"a\":[-1,{},[]],\"b\":true,\"c\":[1]}\n{}\n");
}

static void
test_strings_are_escaped_and_made_utf8(void **state)
{
	struct fixture *x = *state;

	json_string(&x->json, NULL, "a\"\\\n\t\r\001\x7f\xc2\x9b/\xc3\xa9\xff");
	assert_string_equal(written(x),
		"\"a\\\"\\\\\\n\\t\\r\\u0001\\u007f\\u009b/"
		"\xc3\xa9\xef\xbf\xbd\"");
	assert_true(json_check(x->text, NULL));
}

static void
test_ids_are_strings(void **state)
{
	struct fixture *x = *state;

	json_object(&x->json, NULL);
	json_id(&x->json, "id", UINT64_MAX);
	json_uint(&x->json, "n", UINT64_MAX);
	json_object_end(&x->json);
	assert_string_equal(written(x),
		"{\"id\":\"18446744073709551615\",\"n\":18446744073709551615}");
}

static void
test_data_is_text_or_base64(void **state)
{
	struct fixture *x = *state;

	json_object(&x->json, NULL);
	json_data(&x->json, "hi\n", 3);
	json_object_end(&x->json);
	json_line_end(&x->json);
	json_object(&x->json, NULL);
	json_data(&x->json, "\0\xff", 2);
	json_object_end(&x->json);
	json_line_end(&x->json);
	json_object(&x->json, NULL);
	json_data(&x->json, NULL, 0);
	json_object_end(&x->json);
	assert_string_equal(written(x),
		"{\"data\":\"hi\\n\",\"size\":3}\n"
		"{\"data\":\"AP8=\",\"encoding\":\"base64\",\"size\":2}\n"
		"{\"data\":\"\",\"size\":0}");
}

static void
test_times_come_twice(void **state)
{
	struct fixture *x = *state;

	json_object(&x->json, NULL);
	json_time(&x->json, "due", 1500000000);
	json_object_end(&x->json);
	assert_string_equal(written(x),
		"{\"due\":\"1970-01-01T00:00:01.500000000Z\","
		"\"due_ns\":1500000000}");
}

static void
test_check_takes_json(void **state)
{
	static const char *const right[] = {"1", "-0.5e+10", "0", "true",
		"null", "\"\"", "\"\\u00e9\\n\\\"\"", "[]", " [1, 2 ,3] ",
		"{\"a\":{\"b\":[]}}", "{ }", "12345678901234567890",
		"\"\xc3\xa9\""};

	(void)state;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		if (!json_check(right[i], NULL))
			fail_msg("'%s' was refused", right[i]);
}

static void
test_check_refuses_the_rest(void **state)
{
	static const char *const wrong[] = {"", " ", "01", "1.", ".5", "+1",
		"1e", "tru", "nulll", "'a'", "\"a", "\"\n\"", "\"\\x\"",
		"\"\\u12g4\"", "\"\xff\"", "[1,]", "[1 2]", "[", "]", "{1:2}",
		"{\"a\"}", "{\"a\":1,}", "{\"a\":}", "1 2", "{}x"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (json_check(wrong[i], NULL))
			fail_msg("'%s' was taken", wrong[i]);
}

static void
test_check_says_where(void **state)
{
	size_t at;

	(void)state;
	assert_false(json_check("{\"a\": x}", &at));
	assert_int_equal(at, 6);
}

static void
test_check_limits_the_depth(void **state)
{
	char text[2 * JSON_MAX_DEPTH + 3];

	(void)state;
	memset(text, '[', JSON_MAX_DEPTH);
	memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
	text[2 * JSON_MAX_DEPTH] = '\0';
	assert_true(json_check(text, NULL));
	memset(text, '[', JSON_MAX_DEPTH + 1);
	memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
	text[2 * JSON_MAX_DEPTH + 2] = '\0';
	assert_false(json_check(text, NULL));
}

#define WITH_FIXTURE(test) \
	cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FIXTURE(test_objects_and_arrays_nest),
		WITH_FIXTURE(test_strings_are_escaped_and_made_utf8),
		WITH_FIXTURE(test_ids_are_strings),
		WITH_FIXTURE(test_data_is_text_or_base64),
		WITH_FIXTURE(test_times_come_twice),
		cmocka_unit_test(test_check_takes_json),
		cmocka_unit_test(test_check_refuses_the_rest),
		cmocka_unit_test(test_check_says_where),
		cmocka_unit_test(test_check_limits_the_depth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
