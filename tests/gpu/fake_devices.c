/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and contexts of the stand-in. */
#include "fake_identity.h"
#include "fake_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CONTEXT_BASE ((uintptr_t)0xC0DE00000000)
#define COMPUTE_MODE 20 /* an attribute that the server does not read */

struct fake fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local int current = -1; /* the device whose context is current on this thread */

/* ---- calls ----------------------------------------------------------------------------------- */

cu_result fake_enter_any(const char *function) {
        pthread_mutex_lock(&fake.lock);
        if (!fake.is_initialised || fake.pid != getpid())
                return CU_NOT_INITIALIZED;
        if (fake_is_stream_thread())
                return FAKE_NOT_PERMITTED;
        return fake_failure(function);
}

cu_result fake_enter(const char *function, struct fake_device **ret) {
        cu_result result = fake_enter_any(function);

        if (result != CU_SUCCESS)
                return result;
        if (current < 0 || fake.devices[current].n_retained == 0)
                return CU_INVALID_CONTEXT;
        *ret = &fake.devices[current];
        return CU_SUCCESS;
}

cu_result fake_leave(cu_result result) {
        pthread_mutex_unlock(&fake.lock);
        return result;
}

/* ---- the start ------------------------------------------------------------------------------- */

/* "9.0,9.0,5.2"; the last one holds for all that follow. */
static void read_capability(struct fake_device *d) {
        const char *at = fake_setting("CAPABILITIES");

        at = at != NULL ? at : "9.0,9.0,5.2";
        for (int i = 0; i < d->number && strchr(at, ',') != NULL; i++)
                at = strchr(at, ',') + 1;
        if (sscanf(at, "%d.%d", &d->major, &d->minor) != 2)
                fake_report("setting", "NESO_FAKE_GPU_CAPABILITIES has '%s'", at);
}

static void init_device(int ordinal, int number) {
        struct fake_device *d = &fake.devices[ordinal];

        *d = (struct fake_device){ .ordinal = ordinal, .number = number, .file = -1 };
        read_capability(d);
        d->total = fake_setting_number("MEMORY", (uint64_t)1 << 30);
        d->has_virtual = d->major >= 6 && fake_setting_number("VIRTUAL", 1) != 0;
}

/* The numbers up to the first that is none, as the driver reads the variable. */
static void init_devices(void) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        int         n = (int)fake_setting_number("DEVICES", 3);

        n = n > FAKE_MAX_DEVICES ? FAKE_MAX_DEVICES : n;
        fake.n_devices = 0;
        for (int i = 0; visible == NULL && i < n; i++)
                init_device(fake.n_devices++, i);
        while (visible != NULL && fake.n_devices < n) {
                char *end;
                long  number = strtol(visible, &end, 10);

                if (end == visible || number < 0 || number >= n)
                        break;
                init_device(fake.n_devices++, (int)number);
                if (*end != ',')
                        break;
                visible = end + 1;
        }
}

static char *reserve(void) {
        void *place = mmap(NULL, FAKE_ARENA_BYTES, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        return place == MAP_FAILED ? NULL : place;
}

static cu_result init_locked(unsigned flags) {
        if (fake.is_initialised && fake.pid != getpid())
                return CU_NOT_INITIALIZED;
        if (flags != 0)
                return CU_INVALID_VALUE;
        if (fake.arena == NULL)
                fake.arena = reserve();
        if (fake.shadow == NULL)
                fake.shadow = reserve();
        if (fake.arena == NULL || fake.shadow == NULL)
                return CU_OUT_OF_MEMORY;
        for (int i = 0; i < fake.n_devices; i++)
                if (fake.devices[i].n_retained > 0 || fake.devices[i].used > 0)
                        return CU_SUCCESS;
        for (int i = 0; i < fake.n_devices; i++)
                if (fake.devices[i].file >= 0)
                        (void)close(fake.devices[i].file);
        init_devices();
        fake.pid = getpid();
        fake.is_initialised = true;
        return fake.n_devices == 0 ? CU_NO_DEVICE : CU_SUCCESS;
}

cu_result cuInit(unsigned flags) {
        cu_result result;

        pthread_mutex_lock(&fake.lock);
        result = fake_failure(__func__);
        return fake_leave(result != CU_SUCCESS ? result : init_locked(flags));
}

cu_result cuDriverGetVersion(int *version) {
        if (version == NULL)
                return CU_INVALID_VALUE;
        *version = 12040;
        return CU_SUCCESS;
}

/* ---- devices --------------------------------------------------------------------------------- */

/* As fake_enter_any(), for a device that is named. */
static cu_result enter_device(const char *function, cu_device device, const void *ret) {
        cu_result result = fake_enter_any(function);

        if (result == CU_SUCCESS && ret == NULL)
                result = CU_INVALID_VALUE;
        if (result == CU_SUCCESS && (device < 0 || device >= fake.n_devices))
                result = CU_INVALID_DEVICE;
        return result;
}

cu_result cuDeviceGetCount(int *n) {
        cu_result result = fake_enter_any(__func__);

        if (result == CU_SUCCESS)
                *n = fake.n_devices;
        return fake_leave(result);
}

cu_result cuDeviceGet(cu_device *device, int ordinal) {
        cu_result result = enter_device(__func__, ordinal, device);

        if (result == CU_SUCCESS)
                *device = ordinal;
        return fake_leave(result);
}

static cu_result get_attribute(int *ret, int attribute, const struct fake_device *d) {
        switch (attribute) {
        case CU_DEVICE_UNIFIED_ADDRESSING: *ret = 1; return CU_SUCCESS;
        case COMPUTE_MODE: *ret = (int)fake_setting_number("COMPUTE_MODE", 0); return CU_SUCCESS;
        case CU_DEVICE_COMPUTE_CAPABILITY_MAJOR: *ret = d->major; return CU_SUCCESS;
        case CU_DEVICE_COMPUTE_CAPABILITY_MINOR: *ret = d->minor; return CU_SUCCESS;
        case CU_DEVICE_VIRTUAL_MEMORY_SUPPORTED: *ret = d->has_virtual; return CU_SUCCESS;
        default: return CU_INVALID_VALUE;
        }
}

cu_result cuDeviceGetAttribute(int *ret, int attribute, cu_device device) {
        cu_result result = enter_device(__func__, device, ret);

        if (result == CU_SUCCESS)
                result = get_attribute(ret, attribute, &fake.devices[device]);
        return fake_leave(result);
}

/* A text into the caller's room, cut as the driver cuts. */
static cu_result put_text(char *ret, int size, const char *text) {
        if (size <= 0)
                return CU_INVALID_VALUE;
        (void)snprintf(ret, (size_t)size, "%s", text);
        return CU_SUCCESS;
}

cu_result cuDeviceGetName(char *name, int size, cu_device device) {
        cu_result result = enter_device(__func__, device, name);
        char      text[64];

        if (result == CU_SUCCESS) {
                (void)snprintf(text, sizeof(text), "Neso Fake GPU %d.%d",
                               fake.devices[device].major, fake.devices[device].minor);
                result = put_text(name, size, text);
        }
        return fake_leave(result);
}

cu_result cuDeviceGetPCIBusId(char *id, int size, cu_device device) {
        cu_result result = enter_device(__func__, device, id);
        char      text[FAKE_BUS_BYTES];

        if (result == CU_SUCCESS) {
                fake_bus_id(text, fake.devices[device].number);
                result = put_text(id, size, text);
        }
        return fake_leave(result);
}

cu_result cuDeviceGetUuid_v2(struct cu_uuid *uuid, cu_device device) {
        cu_result result = enter_device(__func__, device, uuid);

        if (result == CU_SUCCESS)
                fake_uuid(uuid->bytes, fake.devices[device].number);
        return fake_leave(result);
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device device) {
        cu_result result = enter_device(__func__, device, bytes);

        if (result == CU_SUCCESS)
                *bytes = fake.devices[device].total;
        return fake_leave(result);
}

/* ---- devices that use each other's memory ---------------------------------------------------- */

/* Devices of one generation do, unless PEERS is 0. */
static bool can_reach(int a, int b) {
        return a != b && fake.devices[a].major == fake.devices[b].major &&
               fake_setting_number("PEERS", 1) != 0;
}

cu_result cuDeviceCanAccessPeer(int *ret, cu_device device, cu_device peer) {
        cu_result result = enter_device(__func__, device, ret);

        if (result == CU_SUCCESS && (peer < 0 || peer >= fake.n_devices))
                result = CU_INVALID_DEVICE;
        if (result == CU_SUCCESS)
                *ret = can_reach(device, peer);
        return fake_leave(result);
}

/* The device of a context that was retained; -1 for none. */
static int device_of(cu_context context) {
        uintptr_t number = (uintptr_t)context - CONTEXT_BASE;

        return context != NULL && number < (uintptr_t)fake.n_devices &&
                               fake.devices[number].n_retained > 0
                       ? (int)number
                       : -1;
}

int fake_context_device(cu_context context) {
        return device_of(context);
}

cu_result cuCtxEnablePeerAccess(cu_context peer, unsigned flags) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);
        int                 other = device_of(peer);

        if (result == CU_SUCCESS && flags != 0)
                result = CU_INVALID_VALUE;
        else if (result == CU_SUCCESS && (other < 0 || other == device->ordinal))
                result = CU_INVALID_CONTEXT;
        else if (result == CU_SUCCESS && !can_reach(device->ordinal, other))
                result = CU_PEER_ACCESS_UNSUPPORTED;
        else if (result == CU_SUCCESS && (device->peers & 1u << other) != 0)
                result = CU_PEER_ACCESS_ALREADY_ENABLED;
        if (result == CU_SUCCESS)
                device->peers |= 1u << other;
        return fake_leave(result);
}

/* ---- contexts -------------------------------------------------------------------------------- */

cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device) {
        cu_result result = enter_device(__func__, device, context);

        if (result == CU_SUCCESS) {
                fake.devices[device].n_retained++;
                *context = (cu_context)(CONTEXT_BASE + (uintptr_t)device);
        }
        return fake_leave(result);
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device device) {
        cu_result result = enter_device(__func__, device, "");

        if (result == CU_SUCCESS && fake.devices[device].n_retained == 0)
                fake_report("double release",
                            "the primary context of device %d is released more often than retained",
                            device);
        if (result == CU_SUCCESS && fake.devices[device].n_retained == 1) {
                fake_check_leaks_locked(device);
                fake.devices[device].peers = 0;
        }
        if (result == CU_SUCCESS)
                fake.devices[device].n_retained--;
        return fake_leave(result);
}

cu_result cuCtxSetCurrent(cu_context context) {
        cu_result result = fake_enter_any(__func__);

        if (result == CU_SUCCESS && context != NULL && device_of(context) < 0)
                result = CU_INVALID_CONTEXT;
        if (result == CU_SUCCESS)
                current = context == NULL ? -1 : device_of(context);
        return fake_leave(result);
}

cu_result cuCtxGetCurrent(cu_context *context) {
        cu_result result = fake_enter_any(__func__);

        if (result == CU_SUCCESS)
                *context = current < 0 ? NULL : (cu_context)(CONTEXT_BASE + (uintptr_t)current);
        return fake_leave(result);
}

cu_result cuCtxGetDevice(cu_device *ret) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                *ret = device->ordinal;
        return fake_leave(result);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const struct {
        cu_result   code;
        const char *name, *text;
} errors[] = {
        { CU_SUCCESS, "CUDA_SUCCESS", "no error" },
        { CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
        { CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
        { CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
        { CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
        { CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
        { CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
        { CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
        { CU_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
          "peer access is not supported between these two devices" },
        { CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
        { CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
        { CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
        { CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
          "an illegal memory access was encountered" },
        { CU_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
          "peer access is already enabled" },
        { FAKE_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted" },
        { CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
};

static cu_result find_error(cu_result error, const char **ret, bool wants_name) {
        *ret = NULL;
        for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
                if (errors[i].code == error) {
                        *ret = wants_name ? errors[i].name : errors[i].text;
                        return CU_SUCCESS;
                }
        return CU_INVALID_VALUE;
}

cu_result cuGetErrorName(cu_result error, const char **ret) {
        return find_error(error, ret, true);
}

cu_result cuGetErrorString(cu_result error, const char **ret) {
        return find_error(error, ret, false);
}
