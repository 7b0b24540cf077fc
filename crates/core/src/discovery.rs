//! What kubeadm's token discovery proves.
