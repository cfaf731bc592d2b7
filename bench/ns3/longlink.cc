// Two nodes kilometres apart, with datagrams one way or both ways. Tuned, the slot is longer by
// twice the propagation delay; ns-3's acknowledgement time-out follows the slot.

#include "settings.h"

using namespace bench;

int
main(int argc, char** argv)
{
    Arguments arguments(argc,
                        argv,
                        {{"km", "20"},
                         {"tuned", "1"},
                         {"both", "0"},
                         {"seed", "1"},
                         {"from", "2"},
                         {"to", "20"}});
    double metres = arguments.Number("km") * 1000.0;
    double extra = arguments.Number("tuned") != 0.0 ? 2.0 * metres / 299.792458 : 0.0;
    SetRun(arguments.Number("seed"));
    Network network({Vector(0, 0, 0), Vector(metres, 0, 0)}, Radio{"fixed", 20.0 + extra});
    network.Route({0, 1});
    UdpFlow there(network, 0, 1, 9000);
    UdpFlow back(network, 1, 0, 9001);
    there.Start(Seconds(0.1), 1440, MicroSeconds(1280));
    if (arguments.Number("both") != 0.0) {
        back.Start(Seconds(0.1) + MicroSeconds(437), 1440, MicroSeconds(1280));
    }
    RunAndPrint("long link", arguments.Number("from"), arguments.Number("to"), [&] {
        return there.received + back.received;
    });
}
