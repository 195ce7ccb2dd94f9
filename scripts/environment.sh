# Sourced by the scripts beside it. Makes the project's own environment where it is missing or stale, and sets
#   root    the checkout, which becomes the working directory
#   venv    the environment: .venv, or .venv-PYTHON-PYSPARK where the script wants another pair of versions
# A script sets pair (python3.13-pyspark4.3) before, if it wants another pair than the oldest.
# That pair's Python and a package index are all it needs.

root=$(CDPATH= cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 1
oldest=python3.11-pyspark3.5
pair=${pair:-$oldest}
constraints=constraints/$pair.txt
version=${pair%-*} version=${version#python}
name=.venv
[ "$pair" = $oldest ] || name=.venv-$version-${pair#*-pyspark}
venv=$root/$name
stamp=$venv/.sparksplit-stamp       # written last: says what the environment was made from
unfinished=$venv/.sparksplit-unfinished # written first, removed last: the environment is half-made
cd "$root" || exit 1
. scripts/python.sh

fail() { # MESSAGE: one line, and the exit status of a wrong set-up
  echo "${0##*/}: $1" >&2
  exit 2
}

is_java_17() {
  [ -n "$1" ] && "$1" -XshowSettings:properties -version 2>&1 </dev/null | grep -q 'java\.specification\.version = 17$'
}

spoken() { # PAIR ... Prints "python=3.13 pyspark=4.3, ..."
  printf '%s, ' "$@" | sed 's/python/python=/g; s/-pyspark/ pyspark=/g; s/, $//'
}

if [ ! -f "$constraints" ]; then
  served=(constraints/*.txt) served=("${served[@]##*/}")
  fail "$(spoken "$pair") is not served. Served: $(spoken "${served[@]%.txt}")"
fi

# The same places, in the same order, as sparksplit/spark/settings/java.py.
if is_java_17 "${JAVA_HOME:+$JAVA_HOME/bin/java}" || is_java_17 "$(command -v java)"; then
  extras=test
else
  extras=test,java
fi

# What the environment was made from. One with a Java runtime also serves where none is needed.
wanted() { # EXTRAS
  echo "$root $1 $(cat pyproject.toml "$constraints" | cksum)"
}

is_fresh() {
  [ -f "$stamp" ] && [ ! -f "$unfinished" ] && is_python "$version" "$venv/bin/python" || return 1
  local made_from
  made_from=$(cat "$stamp")
  [ "$made_from" = "$(wanted "$extras")" ] || [ "$made_from" = "$(wanted test,java)" ]
}

make_environment() {
  local started=$SECONDS python uv tool
  uv=$(command -v uv)
  if [ ! -f "$unfinished" ] && is_python "$version" "$venv/bin/python"; then
    # Never replaced: it may be one that somebody made by hand.
    echo "Updating $name: it is not, or no longer, what pyproject.toml and $constraints say"
    rm -f "$stamp"
  else
    python=$(find_python "$version")
    [ -n "$python$uv" ] ||
      fail "Python $version was not found (tried python$version, python3, python, pyenv and uv): install it first"
    if [ -n "$uv" ]; then tool=uv; else tool=pip; fi
    echo "Making $name with $tool: 2.7 GB, a minute or two"
    rm -rf "$venv"
    mkdir "$venv" && touch "$unfinished" || fail "$venv cannot be written"
    if [ -n "$uv" ]; then
      "$uv" venv --quiet --allow-existing --python "${python:-$version}" "$venv" || fail "uv could not make $name"
    else
      "$python" -m venv "$venv" ||
        fail "$python cannot make environments: on Debian and Ubuntu, apt-get install python$version-venv"
    fi
  fi
  # An environment that uv made has no pip.
  if [ -n "$uv" ]; then
    "$uv" pip install --quiet --python "$venv/bin/python" --constraint "$constraints" --editable ".[$extras]"
  else
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --constraint "$constraints" \
      --editable ".[$extras]"
  fi || fail "the packages of $constraints could not be installed (see above)"
  # By all processors: pip compiles with one, and uv not at all. Some packages hold files that are not for this Python.
  "$venv/bin/python" -m compileall -q -j 0 "$venv/lib" >/dev/null || true
  wanted "$extras" >"$stamp"
  rm -f "$unfinished"
  echo "Made $name in $((SECONDS - started)) s"
}

is_fresh || make_environment >&2
