# Runs Debian's Go inside a Debian root: go-in-root ROOT SOURCE OUT CACHES ARGUMENTS...
# Started in a mount namespace of its own, so that what is mounted here goes with it.
set -eu
root=$1 source=$2 out=$3 caches=$4
shift 4
mkdir -p "$root/source" "$root/out" "$root/caches" "$root/etc/ssl/certs"
mount --bind "$source" "$root/source"
mount --bind "$out" "$root/out"
mount --bind "$caches" "$root/caches"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
# Names are resolved, and certificates trusted, as on the machine itself.
for file in /etc/resolv.conf /etc/hosts; do
    if [ -e "$file" ]; then
        touch "$root$file"
        mount --bind "$file" "$root$file"
    fi
done
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    mount --bind /etc/ssl/certs "$root/etc/ssl/certs"
fi
export HOME=/root GOCACHE=/caches/build GOMODCACHE=/caches/modules PATH=/usr/lib/go-1.24/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec chroot "$root" env -C /source go "$@"
