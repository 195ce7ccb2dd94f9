# Sourced by the scripts beside it: finds a Python by its version, such as 3.13.

is_python() { # VERSION PROGRAM
  "$2" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$1" >/dev/null 2>&1
}

# Prints the first that works: pyenv puts programs on the PATH that fail unless their version is the chosen one.
find_python() { # VERSION
  local candidate
  for candidate in "python$1" python3 python "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    if is_python "$1" "$candidate"; then
      echo "$candidate"
      return
    fi
  done
}
