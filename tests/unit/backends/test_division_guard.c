/* SPDX-License-Identifier: BSD-3-Clause */
/* Divisions without a result, executed as the compilers write them. */
#include "suite.h"

#include "onnxruntime/division_guard.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)

struct result {
        uint64_t quotient, remainder;
};

/* The divisor is in a register, also one of the upper eight. */
#define BY_REGISTER(instruction, name, place)                                                      \
        static struct result name(uint64_t low, uint64_t high, uint64_t divisor) {                 \
                struct result     r = { low, high };                                               \
                register uint64_t d __asm__(place) = divisor;                                      \
                                                                                                   \
                __asm__ volatile(instruction                                                       \
                                 : "+a"(r.quotient), "+d"(r.remainder)                             \
                                 : "r"(d)                                                          \
                                 : "cc");                                                          \
                return r;                                                                          \
        }

BY_REGISTER("idivl %k2", idiv32, "rcx")
BY_REGISTER("idivl %k2", idiv32_upper, "r9")
BY_REGISTER("idivq %2", idiv64, "rsi")
BY_REGISTER("idivq %2", idiv64_upper, "r13")
BY_REGISTER("divl %k2", div32, "rdi")
BY_REGISTER("divq %2", div64, "r12")
BY_REGISTER("idivw %w2", idiv16, "rcx")
BY_REGISTER("divb %b2", div8, "rcx")
BY_REGISTER("idivb %b2", idiv8_rex, "rsi")
BY_REGISTER("divb %h2", div8_high, "rbx")

/* The divisor is in memory: [base], [base + 8 bits], [base + 32 bits], [base + index * scale + 8 bits]. */
#define BY_MEMORY(instruction, name, offset)                                                       \
        static struct result name(uint64_t low, uint64_t high, const void *base) {                 \
                struct result     r = { low, high };                                               \
                register uint64_t b __asm__("r13") = (uint64_t)base - (offset);                    \
                register uint64_t i __asm__("r9") = 2;                                             \
                                                                                                   \
                __asm__ volatile(instruction                                                       \
                                 : "+a"(r.quotient), "+d"(r.remainder)                             \
                                 : "r"(b), "r"(i)                                                  \
                                 : "cc", "memory");                                                \
                return r;                                                                          \
        }

BY_MEMORY("idivl (%2)", memory_plain, 0)
BY_MEMORY("idivl 16(%2)", memory_8, 16)
BY_MEMORY("idivq 4096(%2)", memory_32, 4096)
BY_MEMORY("idivl 4(%2,%3,8)", memory_index, 20)

static int32_t global_zero;

static struct result memory_relative(uint64_t low, uint64_t high) {
        struct result r = { low, high };

        __asm__ volatile("idivl %2"
                         : "+a"(r.quotient), "+d"(r.remainder)
                         : "m"(global_zero)
                         : "cc");
        return r;
}

static void assert_result(struct result r, uint64_t quotient, uint64_t remainder) {
        assert_int_equal(r.quotient, quotient);
        assert_int_equal(r.remainder, remainder);
}

#define ONES UINT64_MAX

static void test_registers(void **state) {
        uint64_t before = division_guard_count();

        (void)state;
        division_guard_start((const void *)(uintptr_t)test_registers);
        /* What was above 32 bits is 0 afterwards, as after each instruction of 32 bits. */
        assert_result(idiv32(ONES, ONES, 0), 0, 0);
        assert_result(idiv32_upper(7, 0, 0), 0, 0);
        assert_result(idiv64(ONES, ONES, 0), 0, 0);
        assert_result(idiv64_upper(7, 0, 0), 0, 0);
        assert_result(div32(7, 0, 0), 0, 0);
        assert_result(div64(7, 0, 0), 0, 0);
        /* What is above 16 bits stays. */
        assert_result(idiv16(ONES, ONES, 0), ONES << 16, ONES << 16);
        assert_result(div8(ONES, 5, 0), ONES << 16, 5);
        assert_result(idiv8_rex(7, 5, 0), 0, 5);
        assert_result(div8_high(7, 5, 0xff), 0, 5); /* BH is 0, BL is not */
        assert_int_equal(division_guard_count() - before, 10);
        /* The least number by -1. */
        assert_result(idiv32(UINT64_C(0x80000000), ONES, UINT64_C(0xffffffff)),
                      UINT64_C(0x80000000), 0);
        assert_result(idiv64(UINT64_C(1) << 63, ONES, ONES), UINT64_C(1) << 63, 0);
        /* Those that have a result are not touched. */
        assert_result(idiv32(7, 0, 2), 3, 1);
        assert_int_equal(division_guard_count() - before, 12);
        division_guard_stop();
}

static void test_memory(void **state) {
        int64_t zero = 0;

        (void)state;
        division_guard_start((const void *)(uintptr_t)test_memory);
        assert_result(memory_plain(7, 0, &zero), 0, 0);
        assert_result(memory_8(7, 0, &zero), 0, 0);
        assert_result(memory_32(7, 0, &zero), 0, 0);
        assert_result(memory_index(7, 0, &zero), 0, 0);
        assert_result(memory_relative(7, 0), 0, 0);
        division_guard_stop();
}

static volatile sig_atomic_t n_seen;

static void on_other(int number) {
        (void)number;
        n_seen = n_seen + 1;
}

/* Signals that are sent, and divisions by the code of others, are as they would be without it. */
static void test_others(void **state) {
        struct sigaction other = { .sa_handler = on_other }, old, now;
        uint64_t         before = division_guard_count();

        (void)state;
        assert_int_equal(sigaction(SIGFPE, &other, &old), 0);
        division_guard_start((const void *)(uintptr_t)test_others);
        division_guard_start((const void *)(uintptr_t)test_others);
        raise(SIGFPE);
        assert_int_equal(n_seen, 1);
        assert_int_equal(division_guard_count(), before);
        division_guard_stop();
        (void)idiv32(7, 0, 0); /* one stop is missing */
        division_guard_stop();
        assert_int_equal(sigaction(SIGFPE, &old, &now), 0);
        assert_ptr_equal(now.sa_handler, on_other);
}

/* A quotient that is too large for its register is no case that the guard knows. */
static void test_other_fault(void **state) {
        pid_t child = fork();
        int   status;

        (void)state;
        assert_true(child >= 0);
        if (child == 0) {
                (void)signal(SIGFPE, SIG_DFL);
                division_guard_start((const void *)(uintptr_t)test_others);
                (void)div32(0, 5, 3);
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGFPE);
}

SUITE(division_guard) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_registers),
                cmocka_unit_test(test_memory),
                cmocka_unit_test(test_others),
                cmocka_unit_test(test_other_fault),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void test_nothing(void **state) {
        (void)state;
        division_guard_start((const void *)(uintptr_t)test_nothing);
        division_guard_stop();
        assert_int_equal(division_guard_count(), 0);
}

SUITE(division_guard) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_nothing) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
