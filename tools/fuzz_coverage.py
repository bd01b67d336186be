#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""How much of its decoder each fuzz target reaches.

  fuzz_coverage.py BUILD [CORPORA] [TOPIC ...]

BUILD is a build with clang and -fprofile-instr-generate -fcoverage-mapping (`make fuzz-coverage`). Each topic's
replay program runs over tests/fuzz/corpus/<topic> and, when it is there, CORPORA/<topic>, which `make fuzz` has
filled. Prints a row of a table for each: lines reached and lines of the files below. With --missing the lines
that are not reached follow, by file.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What the target is for. A name ending in / is a folder.
DECODERS = {
    "api_keys": ["src/auth/api_key_file.c"],
    "base64": ["src/codec/base64.c"],
    "cached_response": ["src/cache/serialized_response.c", "src/cache/cache_entry.c"],
    "config_load": ["src/config/", "src/repo/model_load.c", "src/repo/repo_load.c",
                    "src/repo/model_instances.c"],
    "ctl_answers": ["src/cli/ctl.c", "src/cli/ctl_gpus.c", "src/cli/ctl_graph.c", "src/cli/ctl_infer.c",
                    "src/cli/ctl_metadata.c", "src/cli/ctl_ready.c", "src/cli/ctl_repository.c",
                    "src/cli/ctl_sequences.c", "src/cli/ctl_session.c", "src/cli/ctl_stacks.c",
                    "src/cli/ctl_stats.c", "src/cli/http_client.c", "src/cli/json_indent.c",
                    "src/cli/json_table.c", "src/load/plain_text.c", "src/cli/tensor_values.c"],
    "ensembles": ["src/pipeline/runner.c", "src/pipeline/run_flow.c", "src/pipeline/ensemble.c"],
    "generate_body": ["src/http/http_generate.c", "src/http/http_generate_json.c"],
    "grpc_message": ["src/grpc/infer_decode.c"],
    "gzip": ["src/codec/gzip.c"],
    "http2": ["src/grpc/h2_conn.c", "src/grpc/grpc_call.c"],
    "http_conn": ["src/http/http_conn.c"],
    "http_request": ["src/http/http_message.c", "src/http/http_head.c"],
    "infer_body": ["src/http/http_infer_decode.c", "src/http/http_infer_tensor.c"],
    "ini_file": ["src/store/ini_file.c"],
    "json": ["src/codec/json_reader.c", "src/codec/json_skip.c", "src/codec/json_tensor.c"],
    "load_answers": ["src/load/http_response.c", "src/load/h2_client.c", "src/load/grpc_answer.c"],
    "load_data": ["src/load/input_json.c", "src/load/input_set.c", "src/load/input_set_make.c",
                  "src/load/prompt_set.c", "src/load/schedule.c", "src/load/request_http.c",
                  "src/load/request_language.c"],
    "load_questions": ["src/load/load_model.c", "src/load/server_stats.c", "src/load/gauge_means.c",
                       "src/load/language.c", "src/load/answer_checker.c", "src/load/grpc_message.c",
                       "src/tune/tune_config.c", "src/tune/tune_space.c"],
    "load_request": ["src/http/http_repository.c", "src/repo/override.c"],
    "machine_files": ["src/base/control_group.c", "src/base/placement.c"],
    "model_config": ["src/config/"],
    "onnx_file": ["backends/onnxruntime/external_data.c"],
    "openai_answer": ["src/openai/openai_answer.c"],
    "openai_body": ["src/openai/openai_request.c"],
    "options": ["src/cli/option_parse.c"],
    "protobuf": ["src/codec/pb_json_read.c", "src/codec/pb_reader.c", "src/codec/pb_build.c"],
    "python_channel": ["backends/python/answer.c", "backends/python/reader.c", "backends/python/reply.c",
                       "backends/python/region.c", "backends/python/bls_call.c",
                       "backends/python/execution.c"],
    "scheduler_calls": ["src/sched_plugin/policy_plugin.c"],
    "sequences": ["src/sequence/sequence_table.c"],
    "server_cloud": ["src/http/http_cloud.c", "src/http/http_sagemaker.c", "src/http/http_vertex_ai.c",
                     "src/call/hosted_models.c", "src/call/hosted_folder.c"],
    "server_grpc": ["src/grpc/"],
    "server_http": ["src/http/"],
    "shared_memory": ["src/shm/", "src/http/http_shm.c"],
    "shared_memory_changes": ["src/shm/", "src/infer/request_strings.c"],
    "store_answers": ["src/store/store.c", "src/store/store_call.c", "src/store/store_fetch.c",
                      "src/store/fetch_file.c", "src/store/piece_transfer.c", "src/store/store_list.c",
                      "src/store/store_retry.c", "src/store/store_cache.c", "src/store/store_kind.c"],
    "store_credentials": ["src/store/aws_files.c", "src/store/aws_keys.c", "src/store/aws_setup.c",
                          "src/store/azure_setup.c", "src/store/azure_token.c",
                          "src/store/credential_file.c", "src/store/gcs_setup.c",
                          "src/store/gcs_token.c", "src/store/sign_aws.c", "src/store/sign_azure.c",
                          "src/store/store_credentials.c", "src/store/store_time.c",
                          "src/store/token_server.c", "src/store/url_parts.c"],
    "store_listing": ["src/store/list_as.c", "src/store/list_gs.c", "src/store/list_s3.c",
                      "src/store/list_web.c", "src/store/xml_reader.c"],
    "text_format": ["src/codec/pb_text.c", "src/codec/pb_text_lexer.c", "src/codec/pb_text_scalar.c"],
    "tls_files": ["src/net/tls_context.c", "src/net/tls_session.c", "src/base/rsa_sign.c"],
    "traceparent": ["src/trace/traceparent.c"],
}
LIBRARIES = ["libtritonserver.so", "backends/identity/libtriton_identity.so",
             "backends/python/libtriton_python.so"]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, **options).stdout


def is_of(name, decoders):
    return any(name.startswith(d) if d.endswith("/") else name == d for d in decoders)


def replay(build, corpora, topic, folder):
    """The merged profile of the program and of the libraries that it has loaded."""
    seeds = [ROOT / "tests/fuzz/corpus" / topic]
    if corpora is not None and (corpora / topic).is_dir() and any((corpora / topic).iterdir()):
        seeds.append(corpora / topic)
    run(build / "tests/fuzz" / f"replay_{topic}", *seeds,
        env={**os.environ, "REPLAY_WHOLE": "1", "LLVM_PROFILE_FILE": str(folder / "%p-%m.profraw")})
    merged = folder / "merged"
    run("llvm-profdata", "merge", "-o", merged, *folder.glob("*.profraw"))
    return merged, sum(len(list(seed.iterdir())) for seed in seeds)


def files_of(build, profile, topic):
    """{path below the root: the file's coverage, as llvm-cov exports it} of the decoder."""
    objects = [o for name in LIBRARIES if (build / name).exists() for o in ("-object", build / name)]
    exported = json.loads(run("llvm-cov", "export", "-skip-functions", f"-instr-profile={profile}",
                              build / "tests/fuzz" / f"replay_{topic}", *objects))
    found = {}
    for file in exported["data"][0]["files"]:
        name = os.path.relpath(os.path.realpath(os.path.join(build, file["filename"])), ROOT)
        if is_of(name, DECODERS[topic]) and name.endswith(".c"):
            found[name] = file
    return found


def missing_lines(file):
    """Lines at which a region begins that was not reached."""
    return sorted({line for line, _, count, has_count, is_entry, *_ in file["segments"]
                   if has_count and is_entry and count == 0})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("corpora", type=pathlib.Path, nargs="?")
    parser.add_argument("topics", nargs="*")
    options = parser.parse_args()
    for topic in options.topics or DECODERS:
        if not (options.build / "tests/fuzz" / f"replay_{topic}").exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            profile, n_seeds = replay(options.build, options.corpora, topic, pathlib.Path(folder))
            files = files_of(options.build, profile, topic)
        lines = [file["summary"]["lines"] for file in files.values()]
        reached, total = sum(l["covered"] for l in lines), sum(l["count"] for l in lines)
        print(f"| `{topic}` | {n_seeds} | {reached} of {total} | {100 * reached // max(total, 1)} % |", flush=True)
        for name, file in files.items() if options.missing else ():
            print(f"    {name}: {' '.join(map(str, missing_lines(file)))}", flush=True)


if __name__ == "__main__":
    main()
