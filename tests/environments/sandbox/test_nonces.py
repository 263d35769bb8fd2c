from spade_environments.sandbox.nonces import Nonces


def test_nonces_are_64_bits_each_and_never_given_twice():
    nonces = Nonces()
    drawn = [nonces.next() for _ in range(3000)]
    assert len(set(drawn)) == 3000
    assert all(len(bytes.fromhex(nonce)) == 8 for nonce in drawn)
