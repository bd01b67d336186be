/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "credentials_fixture.h"
#include "fake_exchange.h"

#include <stdlib.h>
#include <string.h>

#define SCOPE_OF(id, region, service)                                                              \
        "AWS4-HMAC-SHA256 Credential=" id "/20150830/" region "/" service "/aws4_request, "

static struct store_url address(void) {
        return fixture_url(STORE_S3, "", "b", "s3://b/models");
}

/* The signature is of this key and region; the credentials are freed. */
static void expect_signer(struct store_credentials *c, const char *start, const char *token) {
        assert_int_equal(strncmp(fixture_sign(c, "b/k", "authorization"), start, strlen(start)), 0);
        assert_string_equal(fixture_sign(c, "b/k", "x-amz-security-token"), token);
        store_credentials_free(c);
}

static void expect_anonymous(struct store_credentials *c) {
        assert_string_equal(fixture_sign(c, "b/k", "authorization"), "");
        store_credentials_free(c);
}

static void test_variables(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_set("AWS_ACCESS_KEY_ID", "AKID");
        fixture_set("AWS_SECRET_ACCESS_KEY", "secret");
        fixture_set("AWS_SESSION_TOKEN", "token");
        fixture_set("AWS_REGION", "eu-west-1");
        c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "https://s3.eu-west-1.amazonaws.com");
        expect_signer(c, SCOPE_OF("AKID", "eu-west-1", "s3"), "token");

        fixture_set("AWS_DEFAULT_REGION",
                    "cn-north-1"); /* goes first, as with the reference server */
        c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "https://s3.cn-north-1.amazonaws.com.cn");
        expect_signer(c, SCOPE_OF("AKID", "cn-north-1", "s3"), "token");
        assert_int_equal(fake_n_requests(), 0);
}

static void test_origins(void **state) {
        struct store_url url = fixture_url(STORE_S3, "h:9000", "b", "s3://http://h:9000/b");
        struct store_credentials *c;

        (void)state;
        fixture_set("AWS_EC2_METADATA_DISABLED", "TRUE");
        fixture_set("AWS_ENDPOINT_URL", "https://other/");
        c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "http://h:9000");
        expect_anonymous(c);

        url = address();
        c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "https://other");
        expect_anonymous(c);

        fixture_set("AWS_ENDPOINT_URL_S3", "http://minio:9000");
        c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "http://minio:9000");
        expect_anonymous(c);

        fixture_set("AWS_ENDPOINT_URL_S3", "http://minio:9000/a\r\nHost: evil");
        fixture_open_fails(
                &url,
                "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL is not a URL with http:// or https:// "
                "and a host");
        fixture_set("AWS_ENDPOINT_URL_S3", "minio:9000");
        fixture_open_fails(
                &url,
                "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL is not a URL with http:// or https:// "
                "and a host");
}

static void test_refused_variables(void **state) {
        struct store_url url = address();

        (void)state;
        fixture_set("AWS_ACCESS_KEY_ID", "AKID");
        fixture_open_fails(&url, "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
        unsetenv("AWS_ACCESS_KEY_ID");
        fixture_set("AWS_SECRET_ACCESS_KEY", "secret");
        fixture_open_fails(&url, "AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is not");
        fixture_set("AWS_ACCESS_KEY_ID", "AKID\r\nHost: evil");
        fixture_open_fails(
                &url, "a key or token has a control character in it, such as the end of a line");
        unsetenv("AWS_ACCESS_KEY_ID");
        unsetenv("AWS_SECRET_ACCESS_KEY");
        fixture_set("AWS_WEB_IDENTITY_TOKEN_FILE", "/x");
        fixture_open_fails(&url, "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not");
        unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
        fixture_set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/keys");
        fixture_open_fails(
                &url,
                "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https:// nor an address of this "
                "machine");
        fixture_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@evil/keys");
        fixture_open_fails(&url, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with '/'");
        unsetenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        fixture_set("AWS_REGION", "evil.com/");
        fixture_open_fails(
                &url,
                "the region of AWS (AWS_DEFAULT_REGION, AWS_REGION, or 'region' of a file) has "
                "other characters than letters, digits and '-'");
        unsetenv("AWS_REGION");
        fixture_set("AWS_PROFILE", "p");
        fixture_open_fails(
                &url,
                "AWS_PROFILE: there is no profile 'p' in '~/.aws/credentials' or '~/.aws/config'");
        fixture_set_path("AWS_CONFIG_FILE", "none");
        fixture_open_fails(&url,
                           "AWS_CONFIG_FILE: unable to open '%/none': No such file or directory");
}

/* ---- profiles ------------------------------------------------------------------------------ */

static void test_profiles(void **state) {
        struct store_url url = address();

        (void)state;
        fixture_write(".aws/credentials",
                      "[default]\naws_access_key_id = A\naws_secret_access_key = S\n"
                      "[two]\naws_access_key_id=B\naws_secret_access_key=T\n"
                      "aws_session_token=token\n");
        fixture_write(".aws/config",
                      "[default]\nregion = eu-central-1\n[profile two]\nregion = us-west-2\n"
                      "endpoint_url = http://h:1/\n[profile three]\nregion=us-west-1\n"
                      "aws_access_key_id=C\naws_secret_access_key=U\n");
        expect_signer(fixture_open(&url), SCOPE_OF("A", "eu-central-1", "s3"), "");
        fixture_set("AWS_PROFILE", "two");
        struct store_credentials *c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "http://h:1");
        expect_signer(c, SCOPE_OF("B", "us-west-2", "s3"), "token");
        fixture_set("AWS_PROFILE", "three");
        expect_signer(fixture_open(&url), SCOPE_OF("C", "us-west-1", "s3"), "");
        fixture_set("AWS_ACCESS_KEY_ID", "ENV"); /* goes before a profile, whose region counts */
        fixture_set("AWS_SECRET_ACCESS_KEY", "secret");
        expect_signer(fixture_open(&url), SCOPE_OF("ENV", "us-west-1", "s3"), "");
}

static void test_other_files(void **state) {
        struct store_url url = address();

        (void)state;
        fixture_write("keys", "[default]\naws_access_key_id = A\naws_secret_access_key = S\n");
        fixture_write("settings", "[profile default]\nregion = r1\n");
        fixture_set_path("AWS_SHARED_CREDENTIALS_FILE", "keys");
        fixture_set_path("AWS_CONFIG_FILE", "settings");
        expect_signer(fixture_open(&url), SCOPE_OF("A", "r1", "s3"), "");
}

/* A section of services matters only where the host is not known otherwise. */
static void test_services(void **state) {
        struct store_url url = address();
        struct store_url other = fixture_url(STORE_S3, "h:9000", "b", "s3://http://h:9000/b");
        struct store_credentials *c;

        (void)state;
        fixture_write(".aws/config",
                      "[default]\nservices = s\naws_access_key_id=A\naws_secret_access_key=S\n");
        expect_signer(fixture_open(&other), SCOPE_OF("A", "us-east-1", "s3"), "");
        fixture_set("AWS_ENDPOINT_URL_S3", "http://minio:9000");
        c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "http://minio:9000");
        expect_signer(c, SCOPE_OF("A", "us-east-1", "s3"), "");
}

static void test_refused_profiles(void **state) {
        static const struct {
                const char *config;
                const char *text;
        } rows[] = {
                { "[default]\ncredential_process = /bin/keys --secret\n",
                  "%/.aws/config:2: 'credential_process' of the profile 'default' is not "
                  "supported: programs "
                  "are not run for keys" },
                { "[default]\nsso_session = s\n",
                  "%/.aws/config:2: 'sso_session' of the profile 'default' is "
                  "not supported: single sign-on needs a person" },
                { "[default]\nservices = s\n",
                  "%/.aws/config:2: 'services' of the profile 'default' is not "
                  "supported; set AWS_ENDPOINT_URL_S3 instead" },
                { "[default]\naws_access_key_id = A\n",
                  "%/.aws/config:2: the profile 'default' has no 'aws_secret_access_key'" },
                { "[default]\nrole_arn = r\n", "%/.aws/config:2: the profile 'default' has a "
                                               "role_arn, but neither source_profile, "
                                               "credential_source nor web_identity_token_file" },
                { "[default]\nrole_arn = r\nmfa_serial = m\n",
                  "%/.aws/config:3: 'mfa_serial' of the profile 'default' is not supported: a "
                  "server has no "
                  "code to type in" },
                { "[default]\nrole_arn = r\nsource_profile = x\n",
                  "%/.aws/config:3: the source_profile 'x' of the profile 'default' does not "
                  "exist" },
                { "[default]\nrole_arn = r\nsource_profile = x\n[profile x]\nregion=r\n",
                  "%/.aws/config:3: the source_profile 'x' of the profile 'default' has no keys" },
                { "[default]\nrole_arn = r\nsource_profile = x\n[profile "
                  "x]\nrole_arn=r\nsource_profile=y\n",
                  "%/.aws/config:5: 'role_arn' of the profile 'x' is not supported in a "
                  "source_profile: one "
                  "role is taken, not several" },
                { "[default]\nrole_arn = r\ncredential_source = Other\n",
                  "%/.aws/config:3: the credential_source of the profile 'default' is not "
                  "Environment, "
                  "EcsContainer or Ec2InstanceMetadata" },
                { "[default]\nrole_arn = r\ncredential_source = Environment\n",
                  "%/.aws/config:3: the variables of the credential_source of the profile "
                  "'default' are not "
                  "set" },
                { "[default]\nrole_arn = r\nduration_seconds = 1\n",
                  "%/.aws/config:3: duration_seconds of the profile 'default' is not between 900 "
                  "and 43200" },
                { "[default\n", "%/.aws/config:1: a section without ']'" },
        };
        struct store_url url = address();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                fixture_write(".aws/config", rows[i].config);
                fixture_open_fails(&url, rows[i].text);
        }
}

/* ---- roles --------------------------------------------------------------------------------- */

#define STS_ANSWER(action)                                                                         \
        "<" action "Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><" action         \
        "Result>"                                                                                  \
        "<Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>k</SecretAccessKey>"         \
        "<SessionToken>t&amp;u</SessionToken><Expiration>2015-08-30T13:36:00Z</Expiration></"      \
        "Credentials>"                                                                             \
        "</" action "Result></" action "Response>"

static void test_web_identity(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_write("token", " eyJ.x.y\n");
        fixture_set_path("AWS_WEB_IDENTITY_TOKEN_FILE", "token");
        fixture_set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
        fixture_set("AWS_REGION", "eu-west-1");
        fake_expect("POST https://sts.eu-west-1.amazonaws.com/", 200, "",
                    STS_ANSWER("AssumeRoleWithWebIdentity"));
        c = fixture_open(&url);
        assert_int_equal(fake_n_requests(), 0);
        expect_signer(c, SCOPE_OF("ASIA", "eu-west-1", "s3"), "t&u");
        assert_string_equal(fake_request()->text,
                            "POST https://sts.eu-west-1.amazonaws.com/\n"
                            "content-type: application/x-www-form-urlencoded\n\n"
                            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&"
                            "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=neso&"
                            "WebIdentityToken=eyJ.x.y");
        assert_int_equal(fake_n_requests(), 1);
}

static void test_source_profile(void **state) {
        struct store_url url = address();

        (void)state;
        fixture_write(".aws/credentials",
                      "[base]\naws_access_key_id=BASE\naws_secret_access_key=S\n");
        fixture_write(".aws/config",
                      "[profile p]\nrole_arn=arn:r\nsource_profile=base\nregion=eu-west-1\n"
                      "role_session_name=me\nexternal_id=x/y\nduration_seconds=900\n");
        fixture_set("AWS_PROFILE", "p");
        fixture_set("AWS_ENDPOINT_URL_STS", "http://sts:1");
        fake_expect("POST http://sts:1/", 200, "", STS_ANSWER("AssumeRole"));
        expect_signer(fixture_open(&url), SCOPE_OF("ASIA", "eu-west-1", "s3"), "t&u");
        assert_non_null(strstr(fake_request()->text,
                               SCOPE_OF("BASE", "eu-west-1",
                                        "sts") "SignedHeaders=content-type;host;x-amz-date, "));
        assert_non_null(strstr(
                fake_request()->text,
                "\n\nAction=AssumeRole&Version=2011-06-15&RoleArn=arn%3Ar&RoleSessionName=me&"
                "DurationSeconds=900&ExternalId=x%2Fy"));
}

static void test_sts_refusals(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_write("token", "eyJ.secret.y");
        fixture_set_path("AWS_WEB_IDENTITY_TOKEN_FILE", "token");
        fixture_set("AWS_ROLE_ARN", "arn:r");
        c = fixture_open(&url);
        fake_expect("POST https://sts.us-east-1.amazonaws.com/", 400, "",
                    "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>eyJ.secret.y"
                    "</Message></Error></ErrorResponse>");
        fixture_sign_fails(c, ERR_INVALID_ARG,
                           "the role 'arn:r': https://sts.us-east-1.amazonaws.com/: answered "
                           "400 (ExpiredTokenException)");
        fake_expect("POST https://sts.us-east-1.amazonaws.com/", 503, "",
                    "<Code>eyJ secret</Code>");
        fixture_sign_fails(c, ERR_UNAVAILABLE,
                           "the role 'arn:r': https://sts.us-east-1.amazonaws.com/: answered 503");
        fake_expect("POST https://sts.us-east-1.amazonaws.com/", 0, "", "");
        fixture_sign_fails(c, ERR_UNAVAILABLE,
                           "the role 'arn:r': https://sts.us-east-1.amazonaws.com/: no connection");
        fake_expect("POST https://sts.us-east-1.amazonaws.com/", 200, "", "<a/>");
        fixture_sign_fails(c, ERR_INVALID_ARG,
                           "https://sts.us-east-1.amazonaws.com: the answer has no keys");
        fake_expect("POST https://sts.us-east-1.amazonaws.com/", 200, "", "<a><b>eyJ.secret.y</a>");
        fixture_sign_fails(
                c, ERR_INVALID_ARG,
                "https://sts.us-east-1.amazonaws.com: XML, line 1, column 21: mismatched tag");
        fake_expect(
                "POST https://sts.us-east-1.amazonaws.com/", 200, "",
                "<a><Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>b</SecretAccessKey>"
                "<Expiration>soon</Expiration></Credentials></a>");
        fixture_sign_fails(
                c, ERR_INVALID_ARG,
                "https://sts.us-east-1.amazonaws.com: the answer has no valid time of expiry");
        fixture_write("token", " \n");
        fixture_sign_fails(c, ERR_INVALID_ARG,
                           "AWS_WEB_IDENTITY_TOKEN_FILE: the file '%/token' has no token");
        store_credentials_free(c);
}

/* ---- containers and instances -------------------------------------------------------------- */

#define KEYS_JSON                                                                                  \
        "{\"AccessKeyId\":\"ASIA\",\"SecretAccessKey\":\"k\",\"Token\":\"t\\/u\","                 \
        "\"Expiration\":\"2015-08-30T13:36:00Z\"}"

static void test_container(void **state) {
        struct store_url url = address();

        (void)state;
        fixture_set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:51679/keys?a=b");
        fixture_set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret");
        fake_expect("GET http://127.0.0.1:51679/keys?a=b", 200, "", KEYS_JSON);
        expect_signer(fixture_open(&url), SCOPE_OF("ASIA", "us-east-1", "s3"), "t/u");
        assert_string_equal(fake_request()->text,
                            "GET http://127.0.0.1:51679/keys?a=b\nauthorization: secret\n\n");

        fixture_write("token", "of file\n");
        fixture_set_path("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "token");
        fixture_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/keys");
        fake_expect("GET http://169.254.170.2/v2/keys", 200, "", KEYS_JSON);
        expect_signer(fixture_open(&url), SCOPE_OF("ASIA", "us-east-1", "s3"), "t/u");
        assert_string_equal(fake_request()->text,
                            "GET http://169.254.170.2/v2/keys\nauthorization: of file\n\n");
        fake_expect("GET http://169.254.170.2/v2/keys", 403, "",
                    "{\"code\":\"AccessDenied\",\"message\":\"x\"}");
        struct store_credentials *c = fixture_open(&url);
        fixture_sign_fails(c, ERR_INVALID_ARG,
                           "http://169.254.170.2/v2/keys: answered 403 (AccessDenied)");
        store_credentials_free(c);
}

/* They are the value of a header. */
static void test_control_characters_of_container(void **state) {
        static const char *const tokens[] = { "one\r\nx-evil: 1", "one\x1atwo", "one\x7f" };
        struct store_url         url = address();

        (void)state;
        fixture_set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:51679/keys");
        fixture_set_path("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "token");
        for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
                struct store_credentials *c;

                fixture_write("token", tokens[i]);
                c = fixture_open(&url);
                fixture_sign_fails(c, ERR_INVALID_ARG,
                                   "the authorization token of the container has a control "
                                   "character in it, such as the end of a line");
                store_credentials_free(c);
        }
        assert_int_equal(fake_n_requests(), 0);
}

/* The keys that ask for those of a role are checked before they sign. */
static void test_control_characters_of_base_keys(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_write(".aws/config",
                      "[default]\nregion = r\nrole_arn = r\nsource_profile = base\n");
        fixture_write(".aws/credentials",
                      "[base]\naws_access_key_id = A\x05Z\naws_secret_access_key = k\n");
        c = fixture_open(&url);
        fixture_sign_fails(
                c, ERR_INVALID_ARG,
                "a key or token has a control character in it, such as the end of a line");
        store_credentials_free(c);
        assert_int_equal(fake_n_requests(), 0);
}

#define IMDS "http://169.254.169.254/latest/"

static void test_instance(void **state) {
        struct store_url url = address();

        (void)state;
        fake_expect("PUT " IMDS "api/token", 200, "", "tok==");
        fake_expect("GET " IMDS "meta-data/iam/security-credentials/", 200, "", "role@1\n");
        fake_expect("GET " IMDS "meta-data/iam/security-credentials/role%401", 200, "", KEYS_JSON);
        expect_signer(fixture_open(&url), SCOPE_OF("ASIA", "us-east-1", "s3"), "t/u");
        assert_string_equal(fake_request()->text,
                            "GET " IMDS "meta-data/iam/security-credentials/role%401\n"
                            "x-aws-ec2-metadata-token: tok==\n\n");
}

/* No service, no role, or a service that is turned off: requests are anonymous. */
static void test_no_instance(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fake_expect("PUT " IMDS "api/token", 0, "", "");
        expect_anonymous(fixture_open(&url));
        fake_expect("PUT " IMDS "api/token", 403, "", "");
        expect_anonymous(fixture_open(&url));
        fake_expect("PUT " IMDS "api/token", 200, "", "tok");
        fake_expect("GET " IMDS "meta-data/iam/security-credentials/", 404, "", "");
        expect_anonymous(fixture_open(&url));

        c = fixture_open(&url);
        fake_expect("PUT " IMDS "api/token", 500, "", "");
        fixture_sign_fails(c, ERR_UNAVAILABLE, IMDS "api/token: answered 500");
        store_credentials_free(c);

        fixture_set("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://[fd00:ec2::254]/");
        c = fixture_open(&url);
        fake_expect("PUT http://[fd00:ec2::254]/latest/api/token", 0, "", "");
        fixture_sign_fails(c, ERR_UNAVAILABLE,
                           "http://[fd00:ec2::254]/latest/api/token: no connection");
        store_credentials_free(c);
}

/* ---- the file of TRITON_CLOUD_CREDENTIAL_PATH ---------------------------------------------- */

static void test_file(void **state) {
        struct store_url url = address();

        (void)state;
        fixture_set("AWS_ACCESS_KEY_ID", "ENV"); /* is not used with the file */
        fixture_set("AWS_SECRET_ACCESS_KEY", "secret");
        fixture_set("AWS_EC2_METADATA_DISABLED", "true");
        fixture_set_path("TRITON_CLOUD_CREDENTIAL_PATH", "cloud.json");
        fixture_write(".aws/credentials", "[p]\naws_access_key_id=P\naws_secret_access_key=S\n");
        fixture_write(
                "cloud.json",
                "{\"gs\":{\"\":\"/x.json\"},\"s3\":{"
                "\"\":{\"secret_key\":\"S\",\"key_id\":\"ANY\",\"region\":\"r0\",\"session_"
                "token\":\"\","
                "\"profile\":\"\"},"
                "\"s3://b/models\":{\"secret_key\":\"S\",\"key_id\":\"LONG\",\"region\":\"r1\"},"
                "\"s3://b\":{\"secret_key\":\"S\",\"key_id\":\"SHORT\"},"
                "\"s3://http://h:1//c/\":{\"profile\":\"p\",\"region\":\"r2\"},"
                "\"s3://d\":{}}}");
        expect_signer(fixture_open(&url), SCOPE_OF("LONG", "r1", "s3"), "");
        url = fixture_url(STORE_S3, "", "b", "s3://b/other");
        expect_signer(fixture_open(&url), SCOPE_OF("SHORT", "us-east-1", "s3"), "");
        url = fixture_url(STORE_S3, "", "e", "s3://e");
        expect_signer(fixture_open(&url), SCOPE_OF("ANY", "r0", "s3"), "");
        url = fixture_url(STORE_S3, "h:1", "c", "s3://http://h:1/c/models");
        expect_signer(fixture_open(&url), SCOPE_OF("P", "r2", "s3"), "");
        url = fixture_url(STORE_S3, "", "d", "s3://d");
        expect_anonymous(fixture_open(&url));
}

static void test_refused_files(void **state) {
        static const struct {
                const char *json;
                const char *text;
        } rows[] = {
                { "{}", "Cannot match credential for path  s3://b/models" },
                { "{\"s3\":{}}", "Cannot match credential for path  s3://b/models" },
                { "{\"s3\":[]}", "Cannot match credential for path  s3://b/models" },
                { "{\"gs\":{\"\":\"\"}}", "Cannot match credential for path  s3://b/models" },
                { "{\"s3\":{\"s3://c\":{}}}", "Cannot match credential for path  s3://b/models" },
                { "{\"s3\":{\"\":\"secret\"}}",
                  "TRITON_CLOUD_CREDENTIAL_PATH: the file '%/cloud.json' has no "
                  "object as the credentials for 's3://b/models'" },
                { "{\"s3\":{\"\":{\"key_id\":\"x\"}}}",
                  "TRITON_CLOUD_CREDENTIAL_PATH: the credentials have 'key_id' without "
                  "'secret_key'" },
                { "{\"s3\":{\"\":{\"profile\":\"x\"}}}",
                  "TRITON_CLOUD_CREDENTIAL_PATH: there is no profile 'x' in '~/.aws/credentials' "
                  "or "
                  "'~/.aws/config'" },
        };
        struct store_url url = address();
        struct error    *err;

        (void)state;
        fixture_set_path("TRITON_CLOUD_CREDENTIAL_PATH", "cloud.json");
        fixture_open_fails(
                &url,
                "TRITON_CLOUD_CREDENTIAL_PATH: unable to open '%/cloud.json': No such file or "
                "directory");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                fixture_write("cloud.json", rows[i].json);
                fixture_open_fails(&url, rows[i].text);
        }
        fixture_write("cloud.json", "{\"s3\":{\"\":{\"secret_key\":\"secret\"");
        struct store_credentials *c = NULL;
        err = store_credentials_open(&url, &c);
        assert_non_null(err);
        assert_non_null(strstr(err->message, "TRITON_CLOUD_CREDENTIAL_PATH: the file '"));
        assert_null(strstr(err->message, "secret\""));
        error_free(err);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

SUITE(credentials_aws) {
        const struct CMUnitTest tests[] = {
                TEST(test_variables),
                TEST(test_origins),
                TEST(test_refused_variables),
                TEST(test_profiles),
                TEST(test_other_files),
                TEST(test_services),
                TEST(test_refused_profiles),
                TEST(test_web_identity),
                TEST(test_source_profile),
                TEST(test_sts_refusals),
                TEST(test_container),
                TEST(test_instance),
                TEST(test_control_characters_of_container),
                TEST(test_control_characters_of_base_keys),
                TEST(test_no_instance),
                TEST(test_file),
                TEST(test_refused_files),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
