#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
test_known_sums(void **state)
{
	uint8_t zeros[32] = {0};

	(void)state;
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, zeros, sizeof(zeros)), 0x8a9136aa);
	assert_int_equal(crc32c(0, "", 0), 0);
}

static void
test_both_ways_agree_at_every_size(void **state)
{
	uint8_t data[100];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 37 + 11);
	for (size_t i = 0; i <= sizeof(data); i++)
		assert_int_equal(crc32c(7, data, i), crc32c_plain(7, data, i));
}

static void
test_a_sum_goes_on(void **state)
{
	(void)state;
	assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_sums),
		cmocka_unit_test(test_both_ways_agree_at_every_size),
		cmocka_unit_test(test_a_sum_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
