"""packaging/ and the release workflow: what is checked of them without a service manager, a Docker daemon and a runner."""

import gzip
import hashlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pages
import pytest
import yaml

ROOT = pages.ROOT
PACKAGING = ROOT / "packaging"
BEFORE = list(sys.path)
sys.path.insert(0, str(PACKAGING))
import build_deb  # noqa: E402, beside what it packs
import elf  # noqa: E402, on the path since build_deb

# Or processes that later tests start would find the package without its library there.
sys.path[:] = BEFORE

PATIENCE_SECONDS = 60
needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")


def output(*command: object, **settings) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True, **settings).stdout


# The Debian package.


@pytest.fixture(scope="session")
def deb(tmp_path_factory):
    return build_deb.build(ROOT / "target", tmp_path_factory.mktemp("packages"), build_deb.MAINTAINER)


@pytest.fixture(scope="session")
def unpacked(deb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["dpkg-deb", "--raw-extract", deb, folder / "splay"], check=True)
    return folder / "splay"


@needs_dpkg
def test_the_package_has_what_its_users_look_for(deb, unpacked):
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert {
        "usr/bin/splay",
        "usr/lib/systemd/system/splay.service",
        "etc/splay/server.toml",
        "usr/share/man/man1/splay.1.gz",
        "usr/share/man/man1/splay-tick-write.1.gz",
        "usr/share/bash-completion/completions/splay",
        "usr/share/zsh/vendor-completions/_splay",
        "usr/share/fish/vendor_completions.d/splay.fish",
        "usr/share/doc/splay/copyright",
        "usr/share/splay/grafana/prometheus.yml",
        "usr/share/splay/grafana/dashboards/market-data.json",
        "usr/share/doc/splay/changelog.Debian.gz",
    } <= files
    assert (unpacked / "DEBIAN" / "conffiles").read_text() == "/etc/splay/server.toml\n"
    assert output(unpacked / "usr/bin/splay", "--version").startswith("splay ")
    listed = output("dpkg-deb", "--contents", deb)
    assert all(line.split()[1] == "root/root" for line in listed.splitlines())
    summed = [line.split("  ", 1) for line in (unpacked / "DEBIAN" / "md5sums").read_text().splitlines()]
    assert {name for _, name in summed} == {name for name in files if not name.startswith(("DEBIAN/", "etc/"))}
    assert all(hashlib.md5((unpacked / name).read_bytes()).hexdigest() == digest for digest, name in summed)
    assert gzip.decompress((unpacked / "usr/share/doc/splay/changelog.gz").read_bytes()) == (ROOT / "CHANGELOG.md").read_bytes()


@needs_dpkg
def test_the_package_depends_on_what_the_binary_needs(deb, unpacked):
    need = elf.read(unpacked / "usr/bin/splay")
    depends = output("dpkg-deb", "--field", deb, "Depends")
    assert f"libc6 (>= {need.glibc[0]}.{need.glibc[1]})" in depends
    assert output("dpkg-deb", "--field", deb, "Architecture").strip() == build_deb.ARCHITECTURES[need.machine]
    # Libraries beyond these two packages would need to be named.
    assert {name.split(".")[0] for name in need.libraries} <= {"libc", "libm", "libgcc_s", "ld-linux-x86-64", "ld-linux-aarch64"}


@needs_dpkg
def test_equal_inputs_make_equal_packages(deb, tmp_path):
    assert build_deb.build(ROOT / "target", tmp_path, build_deb.MAINTAINER).read_bytes() == deb.read_bytes()


@needs_dpkg
def test_lintian_finds_nothing(deb):
    if not shutil.which("lintian"):
        pytest.skip("needs lintian")
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", deb]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm"])
def test_scripts_of_the_package_are_read_by_the_shell(script):
    subprocess.run(["sh", "-n", PACKAGING / "debian" / script], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "--shell=sh", PACKAGING / "debian" / script], check=True)


# The service.


def test_the_unit_is_valid_and_closed(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    # The binary of the unit isn't installed here.
    unit = tmp_path / "splay.service"
    unit.write_text((PACKAGING / "splay.service").read_text().replace("/usr/bin/splay ", f"{pages.BINARY.resolve()} "))
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert verified.returncode == 0 and "splay.service" not in verified.stderr, verified.stderr
    told = subprocess.run(["systemd-analyze", "security", "--offline=true", unit], capture_output=True, text=True, check=False).stdout
    exposure = re.search(r"Overall exposure level for splay.service: ([\d.]+)", told)
    assert exposure and float(exposure[1]) <= 2.0, told


def test_the_command_of_the_unit_serves_this_machine_only(tmp_path):
    text = (PACKAGING / "splay.service").read_text()
    command = re.search(r"^ExecStart=/usr/bin/splay (.*)$", text, re.M)[1].replace("/var/lib/splay", str(tmp_path))
    settings = tmp_path / "server.toml"
    settings.write_text(re.sub(r":\d+\"", ':0"', (PACKAGING / "server.toml").read_text()))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_SECONDS)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        words = command.replace("/etc/splay/server.toml", str(settings)).split()
        server = subprocess.Popen([pages.BINARY, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            # Type=notify: it is ready when it listens, and not before.
            assert manager.recv(100) == b"READY=1"
            told = [server.stdout.readline() for _ in range(4)]
            assert all(re.search(r"//127\.0\.0\.1:\d+$", line.strip()) for line in told[1:]), told
            server.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert server.wait(PATIENCE_SECONDS) == 0, "Restart=on-failure doesn't start it again"
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
            server.stderr.close()
    # RestartPreventExitStatus: a wrong argument.
    assert subprocess.run([pages.BINARY, "serve", "--nonsense"], capture_output=True, check=False).returncode == 2


def test_a_manager_by_an_abstract_name_is_told(tmp_path):
    name = f"splay-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(PATIENCE_SECONDS)
        ports = ["--http", "127.0.0.1:0", "--flight", "off", "--line", "off"]
        environment = {**os.environ, "NOTIFY_SOCKET": f"@{name}"}
        server = subprocess.Popen([pages.BINARY, "serve", tmp_path / "db", *ports], env=environment, stdout=subprocess.DEVNULL)
        try:
            assert manager.recv(100) == b"READY=1"
        finally:
            server.terminate()
            server.wait()


# The image.


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, with continued lines joined."""
    lines = [line for line in (PACKAGING / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(" ", 1)) for line in text.splitlines() if line]


def context(folder: pathlib.Path) -> None:
    """Copies what the ignore file lets through: it excludes all and names exceptions."""
    rules = [line for line in (PACKAGING / "Dockerfile.dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*" and all(rule.startswith("!") for rule in rules[1:])
    for rule in rules[1:]:
        source = ROOT / rule[1:]
        (folder / rule[1:]).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, folder / rule[1:], ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / rule[1:])


def test_the_dockerfile_finds_what_it_copies_and_its_commands_are_read_by_the_shell(tmp_path):
    context(tmp_path)
    for name, text in instructions():
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", text], check=True)
        if name == "COPY" and "--from" not in text:
            for source in text.split()[:-1]:
                assert (tmp_path / source).exists(), source
    stages = [text for name, text in instructions() if name == "FROM"]
    wanted = re.search(r'^rust-version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    assert [re.split("[:-]", stage)[0] for stage in stages] == ["node", "rust", "debian"] and all("bookworm" in stage for stage in stages)
    assert stages[1].startswith(f"rust:{wanted}-")
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    # Both have the version of Node.js by which the console of the other packages is built.
    assert f'node-version: "{re.search("node:([0-9]+)-", stages[0])[1]}"' in workflow
    # The page that the image's test expects is the console's, which is built before the command.
    title = re.search("<title>.*</title>", (tmp_path / "console" / "index.html").read_text())[0]
    assert workflow.count(f"grep --fixed-strings '{title}'") == 2
    steps = [text for name, text in instructions() if name in ("COPY", "RUN")]
    assert steps.index("--from=console /build/console/embedded console/embedded") < steps.index("cargo build --release --locked -p splay-cli")
    assert [text for name, text in instructions() if name == "USER"] == ["splay"]
    # All manifests of the workspace are in the context, and the lock file is whole. Nothing is compiled.
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--no-deps"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


def test_the_health_check_asks_what_a_server_answers(tmp_path):
    check = dict(instructions())["HEALTHCHECK"].split("CMD ", 1)[1]
    if not shutil.which("curl"):
        pytest.skip("needs curl")
    with pages.Runner(tmp_path) as runner:
        runner.serve(f"splay serve {tmp_path / 'db'} --line off --flight off --http 127.0.0.1:0")
        here = check.replace("127.0.0.1:7750", runner.addresses["127.0.0.1:7750"])
        assert subprocess.run(["sh", "-c", here], capture_output=True, check=False).returncode == 0
    assert subprocess.run(["sh", "-c", here], capture_output=True, check=False).returncode != 0, "it has ended"


# The release workflow.


def test_the_release_workflow_builds_and_tests_for_both_machines():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    jobs = workflow["jobs"]
    for name in ("packages", "image"):
        machines = [row["machine"] for row in jobs[name]["strategy"]["matrix"]["include"]]
        assert machines == ["x86_64", "aarch64"]
    assert set(jobs["publish"]["needs"]) == {"packages", "image"}
    texts = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    for text in texts:
        plain = re.sub(r"\$\{\{.*?\}\}", "value", text)
        subprocess.run(["bash", "-n", "-c", plain], check=True)
    assert ".ci/run" in texts, "all checks, before anything is kept"
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([\w-]+)", "\n".join(texts))) <= targets
    for name in re.findall(r"packaging/[\w./-]+", "\n".join(texts)):
        assert (ROOT / name).is_file()
