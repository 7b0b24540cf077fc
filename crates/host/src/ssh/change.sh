# Changes a machine, one thing a call. Fed to `sh -s`, followed by the one line that names it (change.rs writes it).
#
# After `carrick NONCE`, which ends the noise of a login, stdout is the answer; the exit status tells how it went.
# Needs find -printf, stat, base64, sync FILE, dd, truncate, mv -T (coreutils) and flock (util-linux).

LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
export LC_ALL PATH
umask 077

look() { # PATH
    # Not there, or behind a directory that may not be entered: ls tells which.
    why=$(ls -d -- "$1" 2>&1 >/dev/null) || case $why in
    *'No such file or directory' | *'Not a directory') echo none && return ;;
    *) echo "${why##*: }" >&2 && return 1 ;;
    esac
    if [ -h "$1" ]; then
        printf 'link ' && readlink -- "$1"
    elif [ -d "$1" ]; then
        stat -c 'dir %a %u %g' -- "$1"
    elif [ -f "$1" ]; then
        stat -c 'file %a %u %g' -- "$1" && head -c "$largest" -- "$1"
    elif [ -S "$1" ]; then
        echo 'other a socket'
    else
        echo 'other a device'
    fi
}

list() { # PATH
    [ -e "$1" ] || return 0
    find "$1" -mindepth 1 -maxdepth 1 -printf '%f\0'
}

replace() { # PATH MODE OWNER SIZE BASE64
    new=${1%/*}/.${1##*/}.carrick
    has_dir "$1" || return
    rm -f -- "$new" && printf %s "$5" | base64 -d >"$new" && own "$new" "$2" "$3" && sync -- "$new" &&
        mv -f -T -- "$new" "$1" && sync_parent "$1" && return
    rm -f -- "$new"
    return 1
}

in_place() { # PATH MODE OWNER SIZE BASE64
    no_link "$1" && has_dir "$1" && printf %s "$5" | base64 -d | dd of="$1" conv=notrunc status=none && truncate -s "$4" -- "$1" &&
        own "$1" "$2" "$3" && sync -- "$1" && sync_parent "$1"
}

append() { # PATH MODE OWNER SIZE BASE64
    no_link "$1" && has_dir "$1" || return
    [ -e "$1" ] || { : >"$1" && chmod "$2" -- "$1" && sync_parent "$1"; } || return
    size=$(stat -c %s -- "$1") && if printf %s "$5" | base64 -d >>"$1" && sync -- "$1"; then return 0; fi
    # Half a line would be taken for a torn journal.
    truncate -s "$size" -- "$1"
    return 1
}

link() { # PATH TARGET
    new=${1%/*}/.${1##*/}.carrick
    has_dir "$1" && rm -f -- "$new" && ln -s -- "$2" "$new" && mv -f -T -- "$new" "$1" && sync_parent "$1"
}

own() { # PATH MODE OWNER
    [ "$(stat -c %u:%g -- "$1")" = "$3" ] || chown "$3" -- "$1"
    chmod "$2" -- "$1"
}

no_link() { # PATH
    [ ! -h "$1" ] || { echo 'is a link' >&2 && return 1; }
}

# Shells have words of their own for what every program calls the same.
has_dir() { # PATH
    parent=${1%/*}
    [ -d "${parent:-/}" ] || { echo 'No such file or directory' >&2 && return 1; }
}

sync_parent() { # PATH
    parent=${1%/*}
    sync -- "${parent:-/}"
}

make_dir() { # PATH MODE
    [ -d "$1" ] || { mkdir -- "$1" && chmod "$2" -- "$1" && sync_parent "$1"; }
}

set_mode() { # PATH MODE
    no_link "$1" && chmod "$2" -- "$1"
}

remove() { # PATH
    [ -e "$1" ] || [ -h "$1" ] || return 0
    if [ -d "$1" ] && [ ! -h "$1" ]; then rmdir -- "$1"; else rm -f -- "$1"; fi && sync_parent "$1"
}

# Holds the lock for as long as somebody holds our stdin open, and lets us hear of them: of a client that vanished sshd
# learns hours later. The second line says whose it is, for `locked`.
hold() { # PATH HOLDER NONCE
    no_link "$1" && no_link "$1.commands" && exec 9<>"$1" 8<>"$1.commands" || return
    # A command of a run whose link is gone may still be at work.
    if flock -n 9 && flock -n 8; then
        exec 8<&-
        printf '%s\n%s\n' "$2" "$3" >"$1" && echo held || return
        while [ "$(timeout 30 dd bs=1 count=1 status=none | wc -c)" -eq 1 ]; do :; done
    else
        printf 'taken ' && head -n 1 -- "$1" | head -c 4096
    fi
}

# Makes a change while the lock is ours, and keeps the next run away until it is made, whatever becomes of the link. A
# client that was suspended, or cut off, has lost its lock after half a minute: then nothing is changed.
locked() { # PATH NONCE CALL…
    lock=$1 mine=$2 && shift 2
    no_link "$lock.commands" && exec 8<>"$lock.commands" && flock -s -w 5 8 || return
    if ! exec 7<"$lock" || flock -n 7 || [ "$(sed -n 2p -- "$lock")" != "$mine" ]; then
        printf 'lost %s\n' "$nonce" && return 97
    fi
    exec 7<&-
    "$@"
}
