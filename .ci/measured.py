"""What `.ci/tasks` and `.ci/recipes` share: a project in a folder, a run in it, and what both are asked for."""
import argparse, json, os, subprocess, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def write(files, root):
    """Writes the files of a project."""
    for path, text in files.items():
        os.makedirs(os.path.dirname(f'{root}/{path}') or root, exist_ok=True)
        with open(f'{root}/{path}', 'w') as file:
            file.write(text)


def run(command, root, environment, result, limit):
    """Runs a program; returns its result object, what it printed, its exit code (`None`: time is up) and its seconds."""
    started = time.monotonic()
    try:
        ran = subprocess.run(command, cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, timeout=limit)
        printed, code = ran.stdout, ran.returncode
    except subprocess.TimeoutExpired:
        printed, code = '', None
    seconds = round(time.monotonic() - started, 1)
    try:
        with open(result) as file:
            return json.load(file), printed, code, seconds
    except (OSError, ValueError):
        return {}, printed, code, seconds


def parser(usage):
    """Returns a parser of the arguments that both have."""
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument('--program', default=f'{ROOT}/target/debug/qwen')
    parser.add_argument('--half', choices=['work', 'held', 'all'], default='all')
    parser.add_argument('--save')
    parser.add_argument('--record')
    return parser


def is_of_half(case, half):
    """Tells whether a case is of the half that was asked for."""
    return half == 'all' or case.get('held', False) == (half == 'held')


def has_server():
    """Tells whether a model was named."""
    return bool(os.environ.get('QWEN_BASE_URL'))


NO_SERVER = 'set QWEN_BASE_URL to a server with a model, for example http://127.0.0.1:8080/v1'


def save(outcomes, path):
    """Saves what came out so far, if that was asked for."""
    if path:
        with open(path, 'w') as file:
            json.dump(outcomes, file, indent=1)
