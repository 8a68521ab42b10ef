"""Policies that tests share; here, so that other processes find them."""

import farlink


class Lowest(farlink.Router):
    """Everything to the neighbour with the lowest node number: `lowest` of the tutorial, in Python."""

    hears = ("peers",)

    def on(self, node, news):
        if news.kind == "up":
            self.reroute_all()

    def route(self, node, bundle, tried):
        fits = [peer for peer in node.peers if peer not in tried and not bundle.came_from(peer)]
        return min(fits, key=lambda peer: peer.number) if fits else farlink.Wait()


class Flood(farlink.Router):
    """`epidemic`, in Python."""

    copies = True
    asks_summaries = True

    def wants(self, node, peer, bundle):
        return True


class LowestCopies(farlink.Router):
    """`lowest-copies` of the tutorial, in Python."""

    hears = "kept"
    copies = True

    def on(self, node, news):
        if news.kind == "kept":
            self.label(news.bundle, min(8 if news.label is None else news.label, 8))

    def wants(self, node, peer, bundle):
        left = bundle.label
        if peer.number < node.number and left > 1:
            return farlink.CopyOffer(ours=left - left // 2, theirs=left // 2)
        return None
