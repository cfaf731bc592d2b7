// A grid of 13 x 13 nodes 90 m apart, with 6 or 12 straight flows of 12 hops from end to end.

#include "settings.h"

using namespace bench;

int
main(int argc, char** argv)
{
    Arguments arguments(argc,
                        argv,
                        {{"flows", "6"},
                         {"radio", "pl4"},
                         {"seed", "1"},
                         {"from", "1"},
                         {"to", "20"}});
    const uint32_t side = 13;
    SetRun(arguments.Number("seed"));
    std::vector<Vector> places;
    for (uint32_t i = 0; i < side * side; ++i) {
        places.emplace_back(90.0 * (i % side), 90.0 * (i / side), 0.0);
    }
    Network network(places, Radio{arguments.Text("radio")});
    std::vector<uint32_t> lines{2, 6, 10};
    if (arguments.Number("flows") == 12.0) {
        lines = {1, 3, 5, 7, 9, 11};
    }
    std::vector<std::unique_ptr<UdpFlow>> flows;
    auto add = [&](uint32_t first, uint32_t step) {
        std::vector<uint32_t> path;
        for (uint32_t i = 0; i < side; ++i) {
            path.push_back(first + i * step);
        }
        network.Route(path);
        auto number = static_cast<uint32_t>(flows.size());
        flows.push_back(
            std::make_unique<UdpFlow>(network, path.front(), path.back(), 9000 + number));
        flows.back()->Start(Seconds(0.1) + MicroSeconds(97 * number), 1000, MicroSeconds(1200));
    };
    for (auto line : lines) {
        add(line * side, 1); // a row, left to right
    }
    for (auto line : lines) {
        add(line, side); // a column, bottom to top
    }
    RunAndPrint("grid", arguments.Number("from"), arguments.Number("to"), [&] {
        uint64_t sum = 0;
        for (const auto& flow : flows) {
            sum += flow->received;
        }
        return sum;
    });
}
