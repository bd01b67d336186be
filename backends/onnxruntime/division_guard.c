/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/division_guard.h"

#if defined(__x86_64__)

#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

/* ---- one instruction -------------------------------------------------------------------------- */

/* DIV or IDIV, opcodes F6 and F7 (Intel's manual, volume 2). */
struct division {
        unsigned bytes; /* of the divisor */
        bool     is_signed;
        uint64_t divisor; /* sign-extended */
        size_t   length;  /* of the instruction */
};

struct cursor {
        const uint8_t *at;
        const greg_t  *registers;
        uint8_t        rex;         /* 0: none */
        bool           has_16_bits; /* prefix 66 */
        const uint8_t *start;
};

#define REX_B 1
#define REX_X 2
#define REX_W 8

/* The processor's numbers of the registers. */
static const int places[] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15 };

static uint64_t register_of(const struct cursor *c, unsigned number) {
        return (uint64_t)c->registers[places[number]];
}

static int64_t take_signed(struct cursor *c, size_t n) {
        int8_t  byte;
        int32_t word;

        if (n == 1) {
                memcpy(&byte, c->at, 1);
                c->at += 1;
                return byte;
        }
        memcpy(&word, c->at, sizeof(word));
        c->at += sizeof(word);
        return word;
}

/* False for a prefix that no compiler puts before a division: other segments, addresses of 32 bits. */
static bool take_prefixes(struct cursor *c) {
        if (*c->at == 0x66) {
                c->has_16_bits = true;
                c->at++;
        }
        if ((*c->at & 0xf0) == 0x40)
                c->rex = *c->at++;
        return *c->at == 0xf6 || *c->at == 0xf7;
}

/* The address of the operand in memory; the cursor is after the byte ModRM. */
static uint64_t take_address(struct cursor *c, unsigned mod, unsigned rm) {
        unsigned base = rm;
        uint64_t address = 0;

        if (rm == 4) { /* SIB */
                uint8_t  sib = *c->at++;
                unsigned index = ((sib >> 3) & 7) | ((c->rex & REX_X) != 0 ? 8U : 0U);

                base = sib & 7;
                if (index != 4)
                        address = register_of(c, index) << (sib >> 6);
        }
        if (mod == 0 && base == 5) {
                address += (uint64_t)take_signed(c, 4);
                return rm == 5 ? address + (uint64_t)(uintptr_t)c->at
                               : address; /* relative to RIP */
        }
        address += register_of(c, base | ((c->rex & REX_B) != 0 ? 8U : 0U));
        if (mod != 0)
                address += (uint64_t)take_signed(c, mod == 1 ? 1 : 4);
        return address;
}

static uint64_t extend(uint64_t value, unsigned bytes) {
        unsigned shift = 64 - 8 * bytes;

        return (uint64_t)((int64_t)(value << shift) >> shift);
}

/* Without REX, the numbers 4 to 7 of registers of one byte are AH, CH, DH and BH. */
static uint64_t take_register(const struct cursor *c, unsigned bytes, unsigned rm) {
        if (bytes == 1 && c->rex == 0 && rm >= 4)
                return register_of(c, rm - 4) >> 8;
        return register_of(c, rm | ((c->rex & REX_B) != 0 ? 8U : 0U));
}

/* False when the instruction is no division. The processor has read the divisor, so its memory is there. */
static bool read_division(struct cursor *c, struct division *ret) {
        unsigned mod, operation, rm;
        uint64_t value = 0;
        bool     has_8_bits;

        if (!take_prefixes(c))
                return false;
        has_8_bits = *c->at++ == 0xf6;
        mod = *c->at >> 6;
        operation = (*c->at >> 3) & 7;
        rm = *c->at++ & 7;
        if (operation < 6)
                return false;
        ret->bytes = has_8_bits ? 1 : (c->rex & REX_W) != 0 ? 8 : c->has_16_bits ? 2 : 4;
        ret->is_signed = operation == 7;
        if (mod == 3)
                value = take_register(c, ret->bytes, rm);
        else
                memcpy(&value, (const void *)(uintptr_t)take_address(c, mod, rm), ret->bytes);
        ret->divisor = extend(value, ret->bytes);
        ret->length = (size_t)(c->at - c->start);
        return true;
}

/* A register of four bytes clears the upper half; a smaller one keeps what is above. */
static void put(greg_t *place, unsigned bytes, uint64_t value) {
        uint64_t mask = bytes >= 4 ? 0 : ~UINT64_C(0) << (8 * bytes);

        if (bytes == 4)
                value &= UINT32_MAX;
        *place = (greg_t)(((uint64_t)*place & mask) | (value & ~mask));
}

/* The remainder is 0 in both cases. */
static void set_result(greg_t *registers, unsigned bytes, uint64_t quotient) {
        if (bytes == 1) { /* AL and AH */
                put(&registers[REG_RAX], 2, quotient & UINT8_MAX);
                return;
        }
        put(&registers[REG_RAX], bytes, quotient);
        put(&registers[REG_RDX], bytes, 0);
}

/* False when the fault has another reason. */
static bool skip_division(greg_t *registers) {
        const uint8_t  *code = (const uint8_t *)(uintptr_t)registers[REG_RIP];
        struct cursor   c = { .at = code, .start = code, .registers = registers };
        struct division d;

        if (!read_division(&c, &d))
                return false;
        if (d.divisor == 0)
                set_result(registers, d.bytes, 0);
        else if (d.is_signed && d.divisor == UINT64_MAX) /* the least number by -1 */
                set_result(registers, d.bytes, -(uint64_t)registers[REG_RAX]);
        else
                return false;
        registers[REG_RIP] += (greg_t)d.length;
        return true;
}

/* ---- the handler ------------------------------------------------------------------------------ */

#define MAX_RANGES 8 /* libraries; each server of a process may have another one */

struct range {
        uintptr_t begin, end;
};

static struct range         ranges[MAX_RANGES]; /* written before n_ranges, never changed */
static atomic_size_t        n_ranges;
static atomic_uint_fast64_t n_divisions;
static struct sigaction     previous_action;
static pthread_mutex_t      lock = PTHREAD_MUTEX_INITIALIZER; /* of start and stop */
static unsigned             n_starts;

static bool is_watched(uintptr_t code) {
        size_t n = atomic_load(&n_ranges);

        for (size_t i = 0; i < n; i++)
                if (code >= ranges[i].begin && code < ranges[i].end)
                        return true;
        return false;
}

/* Without a previous handler the default action follows when the instruction runs again. */
static void forward(int number, siginfo_t *why, void *where) {
        if ((previous_action.sa_flags & SA_SIGINFO) != 0)
                previous_action.sa_sigaction(number, why, where);
        else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN)
                previous_action.sa_handler(number);
        else
                (void)signal(number, SIG_DFL);
}

static void on_fault(int number, siginfo_t *why, void *where) {
        greg_t *registers = ((ucontext_t *)where)->uc_mcontext.gregs;

        if (why->si_code == FPE_INTDIV && is_watched((uintptr_t)registers[REG_RIP]) &&
            skip_division(registers))
                atomic_fetch_add(&n_divisions, 1);
        else
                forward(number, why, where);
}

/* Finds the segment of code with the address. */
static int find_range(struct dl_phdr_info *library, size_t size, void *userp) {
        struct range *r = userp;

        (void)size;
        for (int i = 0; i < library->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &library->dlpi_phdr[i];
                uintptr_t begin = (uintptr_t)(library->dlpi_addr + p->p_vaddr);

                if (p->p_type != PT_LOAD || (p->p_flags & PF_X) == 0 || r->begin < begin ||
                    r->begin - begin >= p->p_memsz)
                        continue;
                *r = (struct range){ begin, begin + p->p_memsz };
                return 1;
        }
        return 0;
}

static void add_range(const void *code) {
        struct range r = { .begin = (uintptr_t)code };
        size_t       n = atomic_load(&n_ranges);

        if (is_watched(r.begin) || n == MAX_RANGES || dl_iterate_phdr(find_range, &r) == 0)
                return;
        ranges[n] = r;
        atomic_store(&n_ranges, n + 1);
}

/* SA_ONSTACK: as for reports of crashes, to which it forwards. */
void division_guard_start(const void *code) {
        struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };

        pthread_mutex_lock(&lock);
        add_range(code);
        if (n_starts++ == 0) {
                sigemptyset(&action.sa_mask);
                (void)sigaction(SIGFPE, &action, &previous_action);
        }
        pthread_mutex_unlock(&lock);
}

void division_guard_stop(void) {
        struct sigaction now;

        pthread_mutex_lock(&lock);
        if (--n_starts == 0 && sigaction(SIGFPE, NULL, &now) == 0 &&
            (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault)
                (void)sigaction(SIGFPE, &previous_action, NULL);
        pthread_mutex_unlock(&lock);
}

uint64_t division_guard_count(void) {
        return atomic_load(&n_divisions);
}

bool division_guard_take_first(void) {
        static atomic_bool is_taken;

        return atomic_load_explicit(&n_divisions, memory_order_relaxed) > 0 &&
               !atomic_exchange(&is_taken, true);
}

#else

void division_guard_start(const void *code) {
        (void)code;
}

void division_guard_stop(void) {
}

uint64_t division_guard_count(void) {
        return 0;
}

bool division_guard_take_first(void) {
        return false;
}

#endif
