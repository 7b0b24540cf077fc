# Prints a certificate for the API server's address that is valid from 2040 on, signed by the cluster's own authority, and
# its key: future-certificate NAME ADDRESS. On the control plane; nothing there is changed.
folder=/root/future-$1
mkdir -p "$folder"
cd "$folder"
: > index.txt
cat > authority.conf <<END
[ca]
default_ca = lab
[lab]
database = index.txt
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
END
echo "subjectAltName = IP:$2" > names.conf
openssl req -new -newkey rsa:2048 -nodes -keyout key.pem -subj /CN=kube-apiserver -out request.pem 2>/dev/null
openssl ca -batch -notext -config authority.conf -cert /etc/kubernetes/pki/ca.crt -keyfile /etc/kubernetes/pki/ca.key \
    -in request.pem -out certificate.pem -startdate 20400101000000Z -enddate 20410101000000Z -extfile names.conf 2>/dev/null
cat certificate.pem key.pem
cd /
rm -r "$folder"
