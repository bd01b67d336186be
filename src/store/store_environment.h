/* SPDX-License-Identifier: BSD-3-Clause */
/* The variables of the environment that credentials depend on, as they were when a store was opened. Keys
 * are renewed by other threads later, and a program that embeds the library may change its environment
 * meanwhile.
 *
 * Ownership.  store_environment_done() overwrites and frees the values.
 * Threads.  One owner; read by any.
 */
#pragma once

#define STORE_VARIABLES(X)                                                                         \
        X(HOME)                                                                                    \
        X(TRITON_CLOUD_CREDENTIAL_PATH)                                                            \
        X(AWS_ACCESS_KEY_ID)                                                                       \
        X(AWS_SECRET_ACCESS_KEY)                                                                   \
        X(AWS_SESSION_TOKEN)                                                                       \
        X(AWS_DEFAULT_REGION)                                                                      \
        X(AWS_REGION)                                                                              \
        X(AWS_ENDPOINT_URL)                                                                        \
        X(AWS_ENDPOINT_URL_S3)                                                                     \
        X(AWS_ENDPOINT_URL_STS)                                                                    \
        X(AWS_PROFILE)                                                                             \
        X(AWS_SHARED_CREDENTIALS_FILE)                                                             \
        X(AWS_CONFIG_FILE)                                                                         \
        X(AWS_WEB_IDENTITY_TOKEN_FILE)                                                             \
        X(AWS_ROLE_ARN)                                                                            \
        X(AWS_ROLE_SESSION_NAME)                                                                   \
        X(AWS_CONTAINER_CREDENTIALS_RELATIVE_URI)                                                  \
        X(AWS_CONTAINER_CREDENTIALS_FULL_URI)                                                      \
        X(AWS_CONTAINER_AUTHORIZATION_TOKEN)                                                       \
        X(AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE)                                                  \
        X(AWS_EC2_METADATA_DISABLED)                                                               \
        X(AWS_EC2_METADATA_SERVICE_ENDPOINT)                                                       \
        X(GOOGLE_APPLICATION_CREDENTIALS)                                                          \
        X(CLOUDSDK_CONFIG)                                                                         \
        X(GCE_METADATA_HOST)                                                                       \
        X(STORAGE_EMULATOR_HOST)                                                                   \
        X(AZURE_STORAGE_ACCOUNT)                                                                   \
        X(AZURE_STORAGE_KEY)                                                                       \
        X(AZURE_STORAGE_SAS_TOKEN)                                                                 \
        X(AZURE_FEDERATED_TOKEN_FILE)                                                              \
        X(AZURE_CLIENT_ID)                                                                         \
        X(AZURE_TENANT_ID)                                                                         \
        X(AZURE_AUTHORITY_HOST)                                                                    \
        X(AZURE_POD_IDENTITY_AUTHORITY_HOST)                                                       \
        X(IDENTITY_ENDPOINT)                                                                       \
        X(IDENTITY_HEADER)

/* clang-format off */
enum store_variable {
#define STORE_VARIABLE_ENUM(name) ENV_##name,
        STORE_VARIABLES(STORE_VARIABLE_ENUM)
#undef STORE_VARIABLE_ENUM
        N_STORE_VARIABLES
};
/* clang-format on */

struct store_environment {
        char *values[N_STORE_VARIABLES]; /* owned; NULL: not set, or empty */
};

void store_environment_read(struct store_environment *ret);
void store_environment_done(struct store_environment *e);

/* NULL when it is not set, or empty. */
const char *store_environment_get(const struct store_environment *e, enum store_variable v);
/* The first of the two that is set. */
const char *store_environment_get_first(const struct store_environment *e, enum store_variable a,
                                        enum store_variable b);
const char *store_variable_name(enum store_variable v);
