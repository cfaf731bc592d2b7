// Saturated stations on a circle of 5 m, all sending to one more.

#include "settings.h"

using namespace bench;

int
main(int argc, char** argv)
{
    Arguments arguments(argc, argv, {{"n", "5"}, {"seed", "1"}, {"from", "2"}, {"to", "20"}});
    auto count = static_cast<uint32_t>(arguments.Number("n"));
    SetRun(arguments.Number("seed"));
    std::vector<Vector> places;
    for (uint32_t i = 0; i <= count; ++i) {
        double angle = 2.0 * M_PI * i / (count + 1);
        places.emplace_back(5.0 * std::cos(angle), 5.0 * std::sin(angle), 0.0);
    }
    Network network(places, Radio{"fixed"});
    std::vector<std::unique_ptr<UdpFlow>> flows;
    for (uint32_t i = 0; i < count; ++i) {
        network.Route({i, count});
        flows.push_back(std::make_unique<UdpFlow>(network, i, count, 9000 + i));
        // 8 Mb/s each, from times that differ.
        flows.back()->Start(Seconds(0.1) + MicroSeconds(37 * i), 1000, MilliSeconds(1));
    }
    RunAndPrint("saturation", arguments.Number("from"), arguments.Number("to"), [&] {
        uint64_t sum = 0;
        for (const auto& flow : flows) {
            sum += flow->received;
        }
        return sum;
    });
}
