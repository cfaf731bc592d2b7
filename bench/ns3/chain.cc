// A chain of nodes 90 m apart, with a datagram flow or a TCP transfer from end to end.

#include "settings.h"

#include <ns3/applications-module.h>

using namespace bench;

namespace {

// NewReno as it was: no SACK, no time stamps, an acknowledgement for each segment.
void
SetTcpDefaults()
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType",
                       TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1.0)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1000));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(65535));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(65535));
}

} // namespace

int
main(int argc, char** argv)
{
    Arguments arguments(argc,
                        argv,
                        {{"hops", "4"},
                         {"radio", "pl4"},
                         {"transport", "udp"},
                         {"seed", "1"},
                         {"from", "50"},
                         {"to", "100"}});
    auto hops = static_cast<uint32_t>(arguments.Number("hops"));
    double from = arguments.Number("from");
    double to = arguments.Number("to");
    SetRun(arguments.Number("seed"));
    SetTcpDefaults();
    std::vector<Vector> places;
    std::vector<uint32_t> path;
    for (uint32_t i = 0; i <= hops; ++i) {
        places.emplace_back(90.0 * i, 0.0, 0.0);
        path.push_back(i);
    }
    Network network(places, Radio{arguments.Text("radio")});
    network.Route(path);
    if (arguments.Text("transport") == "udp") {
        UdpFlow flow(network, 0, hops, 9000);
        flow.Start(Seconds(1.0), 1000, MicroSeconds(1200));
        RunAndPrint("chain udp", from, to, [&] { return flow.received; });
    }
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(network.At(hops), 9000));
    source.SetAttribute("SendSize", UintegerValue(1000));
    source.Install(network.Get(0)).Start(Seconds(1.0));
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9000));
    auto sinks = sink.Install(network.Get(hops));
    auto application = DynamicCast<PacketSink>(sinks.Get(0));
    RunAndPrint("chain tcp", from, to, [&] { return application->GetTotalRx(); });
}
