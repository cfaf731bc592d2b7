// Settings and measurements that all programs of this folder share: 802.11b ad hoc in ns-3 3.37,
// set up so that farhop can be set up the same.
//
// What ns-3 would do by itself and does not do here: acknowledge at 11 Mb/s (every mandatory rate
// is "basic" in its ad hoc mode), queue in a queue disc above the MAC's queue, throw packets away
// after half a second in the queue, ask for addresses by ARP.

#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/mobility-module.h>
#include <ns3/network-module.h>
#include <ns3/propagation-module.h>
#include <ns3/traffic-control-module.h>
#include <ns3/wifi-module.h>

namespace bench {

using namespace ns3;

// Arguments of the form --name=value; an unknown name ends the program.
class Arguments
{
  public:
    Arguments(int argc, char** argv, std::map<std::string, std::string> defaults)
        : m_values(std::move(defaults))
    {
        for (int i = 1; i < argc; ++i) {
            std::string word = argv[i];
            auto equals = word.find('=');
            auto known = m_values.end();
            if (word.rfind("--", 0) == 0 && equals != std::string::npos) {
                known = m_values.find(word.substr(2, equals - 2));
            }
            if (known == m_values.end()) {
                std::fprintf(stderr, "%s: what is '%s'? --name=value of:", argv[0], argv[i]);
                for (const auto& [name, value] : m_values) {
                    std::fprintf(stderr, " %s (%s)", name.c_str(), value.c_str());
                }
                std::fprintf(stderr, "\n");
                std::exit(2);
            }
            known->second = word.substr(equals + 1);
        }
    }

    std::string Text(const std::string& name) const { return m_values.at(name); }

    double Number(const std::string& name) const { return std::stod(m_values.at(name)); }

  private:
    std::map<std::string, std::string> m_values;
};

// The same power up to 100 m, half of it up to 220 m, nothing beyond.
class StepLoss : public PropagationLossModel
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("bench::StepLoss")
                               .SetParent<PropagationLossModel>()
                               .AddConstructor<StepLoss>();
        return id;
    }

  private:
    double DoCalcRxPower(double, Ptr<MobilityModel> a, Ptr<MobilityModel> b) const override
    {
        double metres = a->GetDistanceFrom(b);
        return metres <= 100.0 ? -60.0 : metres <= 220.0 ? -63.0 : -1000.0;
    }

    int64_t DoAssignStreams(int64_t) override { return 0; }
};

NS_OBJECT_ENSURE_REGISTERED(StepLoss);

// What became of the attempts, and how much went on air, after the warm-up.
struct Counts
{
    uint64_t frames = 0;
    uint64_t acked = 0;
    uint64_t failed = 0;
    uint64_t givenUp = 0;
};

inline Counts g_counts;

inline void OnTransmit(Ptr<const Packet>, double) { ++g_counts.frames; }
inline void OnAcked(Ptr<const WifiMpdu>) { ++g_counts.acked; }
inline void OnFailed(Mac48Address) { ++g_counts.failed; }
inline void OnGivenUp(Mac48Address) { ++g_counts.givenUp; }

// Which radio: "fixed" is -50 dBm at any distance; "pl4" and "step" receive up to 100 m and sense
// up to 220 m.
struct Radio
{
    std::string model;
    double slotUs = 20.0;
};

// Nodes with radios, addresses and known neighbours, standing at the given places.
class Network
{
  public:
    Network(const std::vector<Vector>& places, const Radio& radio)
    {
        SetDefaults();
        m_nodes.Create(places.size());
        Place(places);
        Install(radio);
        Introduce();
        Address();
        Connect();
    }

    Ptr<Node> Get(uint32_t node) const { return m_nodes.Get(node); }

    Ipv4Address At(uint32_t node) const { return m_interfaces.GetAddress(node); }

    // Host routes to the last node of the path, and back to the first.
    void Route(const std::vector<uint32_t>& path)
    {
        Ipv4StaticRoutingHelper helper;
        for (size_t i = 0; i + 1 < path.size(); ++i) {
            auto there = helper.GetStaticRouting(Get(path[i])->GetObject<Ipv4>());
            there->AddHostRouteTo(At(path.back()), At(path[i + 1]), 1);
            auto back = helper.GetStaticRouting(Get(path[i + 1])->GetObject<Ipv4>());
            back->AddHostRouteTo(At(path.front()), At(path[i]), 1);
        }
    }

  private:
    static void SetDefaults()
    {
        Config::SetDefault("ns3::WifiMacQueue::MaxSize", StringValue("50p"));
        Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(1e6)));
        Config::SetDefault("ns3::WifiRemoteStationManager::MaxSsrc", UintegerValue(7));
        Config::SetDefault("ns3::WifiRemoteStationManager::MaxSlrc", UintegerValue(7));
        Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(65535));
        Config::SetDefault("ns3::WifiRemoteStationManager::NonUnicastMode",
                           StringValue("DsssRate2Mbps"));
    }

    void Place(const std::vector<Vector>& places)
    {
        auto list = CreateObject<ListPositionAllocator>();
        for (const auto& place : places) {
            list->Add(place);
        }
        MobilityHelper mobility;
        mobility.SetPositionAllocator(list);
        mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
        mobility.Install(m_nodes);
    }

    void Install(const Radio& radio)
    {
        YansWifiChannelHelper channel;
        channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel",
                                    "Speed",
                                    DoubleValue(299792458.0));
        YansWifiPhyHelper phy;
        phy.Set("TxPowerStart", DoubleValue(20.0));
        phy.Set("TxPowerEnd", DoubleValue(20.0));
        if (radio.model == "fixed") {
            channel.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-50.0));
        } else {
            bool isStep = radio.model == "step";
            double receive = -60.0;
            double sense = isStep ? -63.0 : 20.0 - 40.0 * std::log10(220.0);
            if (isStep) {
                channel.AddPropagationLoss("bench::StepLoss");
            } else {
                channel.AddPropagationLoss("ns3::LogDistancePropagationLossModel",
                                           "Exponent",
                                           DoubleValue(4.0),
                                           "ReferenceLoss",
                                           DoubleValue(0.0));
            }
            // ns-3 scales this one by 22 over 20 MHz.
            phy.Set("RxSensitivity", DoubleValue(sense - 10.0 * std::log10(1.1) - 0.001));
            phy.Set("CcaEdThreshold", DoubleValue(sense - 0.001));
            phy.Set("CcaSensitivity", DoubleValue(sense - 0.001));
            phy.SetPreambleDetectionModel("ns3::ThresholdPreambleDetectionModel",
                                          "Threshold",
                                          DoubleValue(4.0),
                                          "MinimumRssi",
                                          DoubleValue(receive - 0.001));
        }
        phy.SetChannel(channel.Create());
        WifiMacHelper mac;
        mac.SetType("ns3::AdhocWifiMac", "QosSupported", BooleanValue(false));
        WifiHelper wifi;
        wifi.SetStandard(WIFI_STANDARD_80211b);
        wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                     "DataMode",
                                     StringValue("DsssRate11Mbps"),
                                     "ControlMode",
                                     StringValue("DsssRate2Mbps"));
        m_devices = wifi.Install(phy, mac, m_nodes);
        for (uint32_t i = 0; i < m_devices.GetN(); ++i) {
            Device(i)->GetPhy()->SetSlot(NanoSeconds(std::llround(radio.slotUs * 1000.0)));
        }
    }

    // Each radio knows all rates of all others beforehand, so that the basic rates stay 1 and 2.
    void Introduce()
    {
        for (uint32_t i = 0; i < m_devices.GetN(); ++i) {
            auto manager = Device(i)->GetRemoteStationManager();
            auto modes = Device(i)->GetPhy()->GetModeList();
            manager->AddBasicMode(WifiMode("DsssRate2Mbps"));
            for (uint32_t j = 0; j < m_devices.GetN(); ++j) {
                if (i == j) {
                    continue;
                }
                auto address = Device(j)->GetMac()->GetAddress();
                for (const auto& mode : modes) {
                    manager->AddSupportedMode(address, mode);
                }
                manager->RecordDisassociated(address);
            }
        }
    }

    void Address()
    {
        InternetStackHelper stack;
        stack.SetIpv6StackInstall(false);
        stack.Install(m_nodes);
        Ipv4AddressHelper addresses;
        addresses.SetBase("10.1.0.0", "255.255.0.0");
        m_interfaces = addresses.Assign(m_devices);
        TrafficControlHelper().Uninstall(m_devices);
        NeighborCacheHelper neighbours;
        neighbours.PopulateNeighborCache(m_interfaces);
    }

    void Connect()
    {
        for (uint32_t i = 0; i < m_devices.GetN(); ++i) {
            auto device = Device(i);
            auto manager = device->GetRemoteStationManager();
            device->GetPhy()->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&OnTransmit));
            device->GetMac()->TraceConnectWithoutContext("AckedMpdu", MakeCallback(&OnAcked));
            manager->TraceConnectWithoutContext("MacTxDataFailed", MakeCallback(&OnFailed));
            manager->TraceConnectWithoutContext("MacTxFinalDataFailed", MakeCallback(&OnGivenUp));
        }
    }

    Ptr<WifiNetDevice> Device(uint32_t i) const
    {
        return DynamicCast<WifiNetDevice>(m_devices.Get(i));
    }

    NodeContainer m_nodes;
    NetDeviceContainer m_devices;
    Ipv4InterfaceContainer m_interfaces;
};

// Datagrams of one size at a constant rate from one node to another, counted where they arrive.
class UdpFlow
{
  public:
    UdpFlow(const Network& network, uint32_t from, uint32_t to, uint16_t port)
        : m_source(Socket::CreateSocket(network.Get(from), UdpSocketFactory::GetTypeId())),
          m_sink(Socket::CreateSocket(network.Get(to), UdpSocketFactory::GetTypeId()))
    {
        m_sink->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
        m_sink->SetRecvCallback(MakeCallback(&UdpFlow::OnReceived, this));
        m_source->Bind();
        m_source->Connect(InetSocketAddress(network.At(to), port));
    }

    void Start(Time at, uint32_t bytes, Time interval)
    {
        m_bytes = bytes;
        m_interval = interval;
        Simulator::Schedule(at, &UdpFlow::Send, this);
    }

    uint64_t received = 0;

  private:
    void Send()
    {
        m_source->Send(Create<Packet>(m_bytes));
        Simulator::Schedule(m_interval, &UdpFlow::Send, this);
    }

    void OnReceived(Ptr<Socket> socket)
    {
        while (auto packet = socket->Recv()) {
            received += packet->GetSize();
        }
    }

    Ptr<Socket> m_source;
    Ptr<Socket> m_sink;
    uint32_t m_bytes = 0;
    Time m_interval;
};

inline std::chrono::steady_clock::time_point g_begun;

// Runs to the end, and prints one line: what `received` counted from `from` on, and what it cost.
template <typename Received>
void RunAndPrint(const std::string& name, double from, double end, Received received)
{
    uint64_t before = 0;
    uint64_t framesBefore = 0;
    Simulator::Schedule(Seconds(from), [&] {
        before = received();
        framesBefore = g_counts.frames;
        g_counts = Counts{};
    });
    Simulator::Stop(Seconds(end));
    Simulator::Run();
    std::chrono::duration<double> wall = std::chrono::steady_clock::now() - g_begun;
    double attempts = double(g_counts.acked + g_counts.failed);
    std::printf("{\"name\":\"%s\",\"goodput_mbps\":%.4f,\"frames_on_air\":%llu,"
                "\"simulated_s\":%g,\"wall_s\":%.3f,\"events\":%llu,"
                "\"failed_attempts\":%.4f,\"given_up\":%llu}\n",
                name.c_str(),
                double(received() - before) * 8.0 / (end - from) / 1e6,
                static_cast<unsigned long long>(framesBefore + g_counts.frames),
                end,
                wall.count(),
                static_cast<unsigned long long>(Simulator::GetEventCount()),
                attempts > 0.0 ? double(g_counts.failed) / attempts : 0.0,
                static_cast<unsigned long long>(g_counts.givenUp));
    std::fflush(stdout);
    // Taking the network apart costs seconds and tells nothing.
    std::_Exit(0);
}

// Before anything else: what `wall_s` counts includes the making of the network, as farhop's does.
inline void SetRun(double seed)
{
    g_begun = std::chrono::steady_clock::now();
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(static_cast<uint64_t>(seed));
}

} // namespace bench
