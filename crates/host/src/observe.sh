# Looks at a machine. Fed to `sh -s`, followed by one line a job (ssh.rs writes them). Changes nothing, writes no file.
#
# What it prints, a line at a time. Jobs run side by side, so a line is one write of less than 4096 bytes: a pipe takes
# such a write whole.
#   carrick NONCE begin SECONDS    the time there; what came before is noise of the login
#   carrick NONCE lacks X  the machine has no X; nothing was looked at
#   F ID NAME              a file of a tree; job ID is its content
#   D ID BASE64            a piece of what was read
#   E ID BASE64            a piece of what was said on stderr, or of why it could not be read
#   X ID STATUS            the end of a job
#   carrick NONCE end
#
# Needs timeout, head, tail, cat, base64 -w, and for directories find -printf.

LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
export LC_ALL PATH
# In characters of base64; a multiple of 4, so that each piece can be read by itself.
width=3900

begin() { # NONCE BOX
    nonce=$1 box=$2
    exec 3>&1 2>/dev/null </dev/null
    printf 'carrick %s begin %s\n' "$nonce" "$(date +%s)"
    for tool in timeout head tail cat find; do
        command -v "$tool" >/dev/null || lack "$tool"
    done
    [ "$(printf x | base64 -w "$width")" = eA== ] || lack 'base64 -w'
}

lack() { # TOOL
    printf 'carrick %s lacks %s\n' "$nonce" "$1"
    exit 1
}

finish() {
    wait
    printf 'carrick %s end\n' "$nonce"
}

send() { # MARK ID PIECE...
    mark=$1 job=$2
    shift 2
    for piece; do
        printf '%s %s %s\n' "$mark" "$job" "$piece" >&3
    done
}

refuse() { # ID MESSAGE
    send E "$1" $(printf %s "$2" | base64 -w "$width")
    printf 'X %s 1\n' "$1" >&3
}

# Where PATH is not a KIND, says so and is true.
is_not() { # ID KIND PATH
    if [ ! -e "$3" ]; then
        # Not there, or behind a directory that may not be entered: opening it tells which.
        refuse "$1" "$({ : <"$3"; } 2>&1)"
        return 0
    fi
    kind=device
    [ ! -f "$3" ] || kind=file
    [ ! -d "$3" ] || kind=directory
    [ ! -p "$3" ] || kind=fifo
    [ ! -S "$3" ] || kind=socket
    [ "$kind" != "$2" ] || return 1
    refuse "$1" ": is a $kind, not a $2"
}

content() { # ID LIMIT PATH
    ! is_not "$1" file "$3" || return 0
    # A `<` is not base64: it says that head failed, wherever in the text it lands.
    text=$({ { head -c "$2" -- "$3" || printf '<' >&4; } | base64 -w "$width"; } 4>&1)
    case $text in
    *'<'*) refuse "$1" "$(head -c "$2" -- "$3" 2>&1 >/dev/null)" ;;
    *)
        send D "$1" $text
        printf 'X %s 0\n' "$1" >&3
        ;;
    esac
}

find_in() { # PATH
    find -H "$1" -mindepth 1 -maxdepth 1 -printf '%M %U %G %s %T@ %f\t%l\0'
}

listing() { # ID LIMIT PATH
    ! is_not "$1" directory "$3" || return 1
    text=$(find_in "$3" | head -c "$2" | base64 -w "$width")
    if [ -z "$text" ]; then
        message=$(find_in "$3" 2>&1 >/dev/null)
        case $message in *-printf*) message=": find there has no -printf, which listing over SSH needs" ;; esac
        [ -z "$message" ] || {
            refuse "$1" "$message"
            return 1
        }
    fi
    send D "$1" $text
    printf 'X %s 0\n' "$1" >&3
}

tree() { # ID LIMIT PATH FILE-LIMIT MOST-FILES
    listing "$1" "$2" "$3" || return 0
    number=0
    for path in "$3"/* "$3"/..?* "$3"/.[!.]*; do
        [ -f "$path" ] || continue
        case $path in
        *'
'*) continue ;;
        esac
        [ "$number" -lt "$5" ] || break
        number=$((number + 1))
        printf 'F %s.%s %s\n' "$1" "$number" "${path##*/}" >&3
        content "$1.$number" "$4" "$path" &
    done
    wait
}

# The first and the last bytes of what comes; the rest is read all the same, so that the writer can end as it would.
ends() { # HEAD TAIL
    head -c "$1"
    if [ "$2" -gt 0 ]; then exec tail -c "$2"; else exec cat >/dev/null; fi
}

query() { # ID HEAD TAIL PROGRAM ARGUMENT...
    id=$1 first=$2 last=$3
    shift 3
    # 3: our output. 4: the command's stderr. 5: around both, for the exit status, between < and >, which are not base64.
    # In ( ), so that a shell's own "Killed" does not get among the command's words.
    told=$({ {
        text=$({ (exec timeout -s KILL "$box" "$@" 2>&4 3>&- 4>&- 5>&-); printf '<%s>' "$?" >&5; } |
            ends "$first" "$last" | base64 -w "$width")
        send D "$id" $text
    } 4>&1 | ends 8192 0 | base64 -w "$width"; } 5>&1)
    status=${told#*<}
    send E "$id" ${told%%<*}${told#*>}
    printf 'X %s %s\n' "$id" "${status%%>*}" >&3
}

f() { content "$@" & }
d() { listing "$@" & }
t() { tree "$@" & }
q() { query "$@" & }
